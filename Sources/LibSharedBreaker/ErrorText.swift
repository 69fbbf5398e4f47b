internal import BreakerCore
internal import Glibc

/// The words of each thread's latest failure.
enum ErrorText {
  /// The thread's buffer; nil if the system has no key left.
  private static let key: pthread_key_t? = {
    var key = pthread_key_t()
    return unsafe pthread_key_create(&key, { unsafe free($0) }) == 0 ? key : nil
  }()

  private static let room = OutsideText.longestError + 1

  static func prepare() { _ = key }

  static func keep(_ text: String) {
    guard let key, let buffer = unsafe buffer(of: key) else { return }
    let text = OutsideText.cut(text)
    unsafe buffer.update(repeating: 0, count: room)
    // A zero byte would end the text early.
    for (place, byte) in text.utf8.enumerated() { unsafe buffer[place] = max(1, byte) }
  }

  /// The text, which stays where it is until the thread's next failure.
  static var current: UnsafePointer<CChar> {
    guard let key, let buffer = unsafe pthread_getspecific(key) else {
      return unsafe CText.constant("")
    }
    return unsafe UnsafePointer(buffer.assumingMemoryBound(to: CChar.self))
  }

  private static func buffer(of key: pthread_key_t) -> UnsafeMutablePointer<UInt8>? {
    if let buffer = unsafe pthread_getspecific(key) {
      return unsafe buffer.assumingMemoryBound(to: UInt8.self)
    }
    guard let made = unsafe calloc(room, 1) else { return nil }
    unsafe pthread_setspecific(key, made)
    return unsafe made.assumingMemoryBound(to: UInt8.self)
  }
}
