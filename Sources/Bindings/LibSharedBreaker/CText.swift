internal import BreakerStore
internal import CSharedBreaker
internal import Glibc
internal import SharedBreaker

/// Text that a C program passes or receives.
enum CText {
  /// Reads a text; nil if there is none.
  static func read(
    _ start: UnsafePointer<CChar>?, _ length: Int64, _ what: StaticString
  ) throws(Failure) -> String? {
    guard let bytes = try unsafe bytes(start, length, what) else { return nil }
    guard let text = unsafe String(validating: bytes, as: UTF8.self) else {
      throw Failure(SB_ERR_TEXT, "the \(what) is not UTF-8")
    }
    return text
  }

  /// Reads a text that must not be NULL.
  static func required(
    _ start: UnsafePointer<CChar>?, _ length: Int64, _ what: StaticString
  ) throws(Failure) -> String {
    guard let text = try unsafe read(start, length, what) else {
      throw .argument("the \(what) is NULL")
    }
    return text
  }

  /// Reads a text whose bytes a system call will see, which ends at a zero byte.
  static func path(
    _ start: UnsafePointer<CChar>?, _ length: Int64, _ what: StaticString
  ) throws(Failure) -> String? {
    let text = try unsafe read(start, length, what)
    if text?.utf8.contains(0) == true {
      throw Failure(SB_ERR_TEXT, "the \(what) has a zero byte in it")
    }
    return text
  }

  /// Reads a text for people, of which only the beginning is kept, and repairs it.
  static func repaired(
    _ start: UnsafePointer<CChar>?, _ length: Int64, _ what: StaticString,
    keeping limit: Int = longestRepaired
  ) throws(Failure) -> String? {
    try unsafe bytes(start, length, what).map { bytes in
      unsafe String(decoding: bytes.prefix(limit), as: UTF8.self)
    }
  }

  /// More than the store keeps of an error text.
  private static let longestRepaired = 4_096

  private static func bytes(
    _ start: UnsafePointer<CChar>?, _ length: Int64, _ what: StaticString
  ) throws(Failure) -> UnsafeBufferPointer<UInt8>? {
    guard length >= Int64(SB_NUL) else {
      throw .argument("the \(what) has the length \(length)")
    }
    guard let start = unsafe start else {
      if length <= 0 { return nil }
      throw .argument("the \(what) is NULL and has the length \(length)")
    }
    let count = unsafe length == Int64(SB_NUL) ? strlen(start) : Int(length)
    return unsafe UnsafeBufferPointer(
      start: UnsafeRawPointer(start).assumingMemoryBound(to: UInt8.self), count: count)
  }

  /// A text that is part of the program.
  static func constant(_ text: StaticString) -> UnsafePointer<CChar> {
    unsafe UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
  }
}

/// Where a function puts a text that its caller frees.
@safe struct TextReceiver {
  private let text: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
  private let length: UnsafeMutablePointer<Int64>?

  /// Clears the caller's variables, so that it frees nothing it was not given after a failure.
  init(
    _ text: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
    _ length: UnsafeMutablePointer<Int64>?
  ) throws(Failure) {
    unsafe length?.pointee = 0
    guard let text = unsafe text else { throw .argument("there is no place for the text") }
    unsafe text.pointee = nil
    unsafe self.text = text
    unsafe self.length = length
  }

  func take(_ bytes: some Collection<UInt8>) throws(Failure) {
    let count = bytes.count
    guard let room = unsafe malloc(count + 1) else {
      throw Failure(SB_ERR_RESOURCES, "there is no memory for a text of \(count) bytes")
    }
    let target = unsafe UnsafeMutableRawBufferPointer(start: room, count: count + 1)
    unsafe target.copyBytes(from: bytes)
    unsafe target[count] = 0
    unsafe text.pointee = room.assumingMemoryBound(to: CChar.self)
    unsafe length?.pointee = Int64(count)
  }

  func take(_ text: String) throws(Failure) { try take(text.utf8) }
}

/// The library's version, as text that stays where it is.
///
/// Unchecked because nothing ever changes or frees it.
@safe private struct LastingText: @unchecked Sendable {
  let start: UnsafePointer<CChar>

  init(_ text: String) {
    unsafe start = text.withCString { unsafe UnsafePointer(strdup($0)) } ?? CText.constant("")
  }

  static let version = LastingText(SharedStore.version)
  static let sqliteVersion = LastingText(SharedStore.sqliteVersion)
}

@c @implementation
package func sb_version() -> UnsafePointer<CChar>? { unsafe LastingText.version.start }

@c @implementation
package func sb_abi_version() -> CInt { SB_ABI_VERSION }

@c @implementation
package func sb_sqlite_version() -> UnsafePointer<CChar>? {
  unsafe LastingText.sqliteVersion.start
}

@c @implementation
package func sb_free(_ text: UnsafeMutableRawPointer?) { unsafe free(text) }
