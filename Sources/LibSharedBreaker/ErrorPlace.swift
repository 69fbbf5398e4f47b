internal import BreakerCore
internal import CSharedBreaker

/// Where a caller wants the words of a call's failure: an `sb_error` that it passes in place of the
/// handle.
///
/// A thread's text is of no use to a caller that may go on in another thread before it reads it.
@safe struct ErrorPlace {
  private let place: UnsafeMutablePointer<sb_error>

  /// The place at a pointer that a caller passed as a handle; nil if there is none.
  ///
  /// What a handle points to begins with a mark, which is no size.
  static func at(_ pointer: OpaquePointer?) -> ErrorPlace? {
    guard let place = unsafe UnsafeMutablePointer<sb_error>(pointer) else { return nil }
    return unsafe ErrorPlace(place)
  }

  /// The place that a caller gives by itself; nil if it is no `sb_error`.
  init?(_ place: UnsafeMutablePointer<sb_error>) {
    guard unsafe place.pointee.size == UInt32(MemoryLayout<sb_error>.size) else { return nil }
    unsafe self.place = place
  }

  /// Checks what a caller gives as a place, if anything.
  static func check(_ place: UnsafeMutablePointer<sb_error>?) throws(Failure) {
    if let size = unsafe place?.pointee.size {
      try unsafe Given.size(size, MemoryLayout<sb_error>.size, "error")
    }
  }

  /// The handle in whose place the caller passed a pointer, or the pointer itself.
  ///
  /// One place leads to a handle, and never to another place.
  static func handle(_ pointer: OpaquePointer?) -> OpaquePointer? {
    guard let place = unsafe at(pointer) else { return unsafe pointer }
    let handle = unsafe OpaquePointer(place.place.pointee.handle)
    return unsafe at(handle) == nil ? handle : nil
  }

  /// Keeps the words of what a call in this thread has just answered, if that is an error.
  func keeping(_ code: CInt) -> CInt {
    if code < 0 {
      keep(Failure(sb_code(rawValue: code), unsafe String(cString: ErrorText.current)))
    }
    return code
  }

  func keep(_ failure: Failure) {
    unsafe place.pointee.code = failure.code.rawValue
    unsafe withUnsafeMutableBytes(of: &place.pointee.text) { room in
      // A zero byte would end the text early.
      let text = OutsideText.cut(failure.text, to: room.count - 1).utf8.map { max(1, $0) }
      unsafe room.copyBytes(from: text)
      unsafe room[text.count] = 0
      unsafe place.pointee.text_length = Int64(text.count)
    }
  }
}
