internal import BreakerCore
internal import BreakerStore
internal import CSharedBreaker
internal import Glibc
internal import SharedBreaker

/// Why a function of the C library failed: a code and its words.
struct Failure: Error {
  let code: sb_code
  let text: String

  init(_ code: sb_code, _ text: String) {
    self.code = code
    self.text = text
  }

  init(_ error: StoreError) {
    self.init(error.isInterrupted ? SB_INTERRUPTED : error.kind.code, error.description)
  }

  init(_ error: BreakerError) {
    switch error {
    case .rejected: self.init(SB_REJECTED, error.description)
    case .invalidName: self.init(SB_ERR_NAME, error.description)
    case .invalidPolicy: self.init(SB_ERR_POLICY, error.description)
    case .noSuchProcess: self.init(SB_ERR_PROCESS, error.description)
    // No function of the C library gives a command to a fleet, or restores breakers.
    case .noRelay, .alreadyExist: self.init(SB_ERR_STORE, error.description)
    case .store(let error): self.init(error)
    }
  }

  static var permitUsed: Failure {
    Failure(SB_ERR_PERMIT_USED, "the permit was used already, or never given")
  }

  static func argument(_ text: String) -> Failure { Failure(SB_ERR_ARGUMENT, text) }
}

extension StoreError.Kind {
  fileprivate var code: sb_code {
    switch self {
    case .missing: SB_ERR_MISSING
    case .notADirectory: SB_ERR_NOT_A_DIRECTORY
    case .isDirectory: SB_ERR_IS_DIRECTORY
    case .isSymbolicLink: SB_ERR_SYMBOLIC_LINK
    case .permissionDenied: SB_ERR_PERMISSION
    case .readOnly: SB_ERR_READ_ONLY
    case .diskFull: SB_ERR_DISK_FULL
    case .corrupt: SB_ERR_CORRUPT
    case .notAStore: SB_ERR_NOT_A_STORE
    case .newerVersion: SB_ERR_NEWER_VERSION
    case .networkFileSystem: SB_ERR_NETWORK_FILE_SYSTEM
    case .busy: SB_ERR_BUSY
    case .inputOutput: SB_ERR_IO
    case .tooManyBreakers: SB_ERR_TOO_MANY_BREAKERS
    case .other: SB_ERR_STORE
    }
  }
}

/// Turns an error of a store into a failure.
func throwingFailures<Answer>(
  _ body: () throws(StoreError) -> Answer
) throws(Failure) -> Answer {
  do throws(StoreError) { return try body() } catch { throw Failure(error) }
}

/// Turns an error of a breaker into a failure.
func throwingFailures<Answer>(
  ofBreaker body: () throws(BreakerError) -> Answer
) throws(Failure) -> Answer {
  do throws(BreakerError) { return try body() } catch { throw Failure(error) }
}

/// Carries out a function that may read or write the store, and answers its code.
///
/// No fork happens meanwhile, so a child finds nothing of the library half done.
///
/// The pointer is the handle, as the caller passed it; nil if the function has none.
func answer(
  _ pointer: OpaquePointer?, _ body: () throws(Failure) -> sb_code
) -> CInt {
  // Looked up first, because the body may free the handle.
  let place = unsafe ErrorPlace.at(pointer)
  do throws(Failure) {
    return try CallGate.shared.pass(body).rawValue
  } catch {
    return told(error, to: place)
  }
}

/// Keeps the words of a failure where the caller wants them and for `sb_error_text`, and answers its
/// code.
func told(_ failure: Failure, to place: ErrorPlace?) -> CInt {
  ErrorText.keep(failure.text)
  place?.keep(failure)
  return failure.code.rawValue
}

/// Where a caller wants the words of a call's failure: an `sb_error` that it passes in place of the
/// handle.
///
/// A thread's text is useless to a caller that may move to another thread before it reads it.
@safe struct ErrorPlace {
  private let place: UnsafeMutablePointer<sb_error>

  /// The place at a pointer that a caller passed as a handle; nil if there is none.
  ///
  /// Behind a handle is a mark, which is never the size of an `sb_error`.
  static func at(_ pointer: OpaquePointer?) -> ErrorPlace? {
    guard let place = unsafe UnsafeMutablePointer<sb_error>(pointer) else { return nil }
    return unsafe ErrorPlace(place)
  }

  /// The place that a caller passes as such; nil if it is not an `sb_error`.
  init?(_ place: UnsafeMutablePointer<sb_error>) {
    guard unsafe place.pointee.size == UInt32(MemoryLayout<sb_error>.size) else { return nil }
    unsafe self.place = place
  }

  /// Checks a place that a caller passes; NULL is fine.
  static func check(_ place: UnsafeMutablePointer<sb_error>?) throws(Failure) {
    if let size = unsafe place?.pointee.size {
      try unsafe Given.size(size, MemoryLayout<sb_error>.size, "error")
    }
  }

  /// The handle that a caller's pointer leads to: through an `sb_error`, or directly.
  ///
  /// One place leads to a handle, and never to another place.
  static func handle(_ pointer: OpaquePointer?) -> OpaquePointer? {
    guard let place = unsafe at(pointer) else { return unsafe pointer }
    let handle = unsafe OpaquePointer(place.place.pointee.handle)
    return unsafe at(handle) == nil ? handle : nil
  }

  /// Keeps the words of the code that a call in this thread has just answered, if it is an error.
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

/// The meaning of each code, in a few words.
enum CodeText {
  static func of(_ code: sb_code) -> StaticString {
    switch code {
    case SB_OK: "done"
    case SB_REJECTED: "the breaker rejects the call"
    case SB_WOULD_BLOCK: "the answer takes waiting"
    case SB_OUTDATED: "the breaker has changed since the call began"
    case SB_REFUSED: "the permit is no longer good"
    case SB_NOT_FOUND: "there is no such breaker"
    case SB_NOTHING: "there is nothing to do now"
    case SB_UNTRIED: "the store has not been used yet"
    case SB_SKIPPED: "an entry has failed too often and is skipped"
    case SB_INTERRUPTED: "the wait was ended early"
    case SB_WAITING: "the call waits for its turn"
    case SB_LIMITED: "the breaker limits how many calls are under way"
    case SB_ERR_ARGUMENT: "an argument is not valid"
    case SB_ERR_CLOSED: "the store was closed"
    case SB_ERR_TEXT: "a text is not UTF-8"
    case SB_ERR_NAME: "the text cannot be the name of a breaker"
    case SB_ERR_POLICY: "the policy is not valid"
    case SB_ERR_TOKEN: "the text is not a token"
    case SB_ERR_PROCESS: "there is no such process"
    case SB_ERR_SIZE: "a struct has an unknown size"
    case SB_ERR_PERMIT_USED: "the permit was used already, or never given"
    case SB_ERR_PERMIT_OTHER: "the permit was given by another breaker"
    case SB_ERR_PERMIT_LIVE: "the permit is still in use"
    case SB_ERR_FORKED: "it belongs to the process that this one was forked from"
    case SB_ERR_HOOK: "the hook has no entry, or still has one"
    case SB_ERR_RESOURCES: "the system has no memory or descriptor left"
    case SB_ERR_MISSING: "there is no store at the path"
    case SB_ERR_NOT_A_DIRECTORY: "the path leads through something that is not a directory"
    case SB_ERR_IS_DIRECTORY: "the path names a directory"
    case SB_ERR_SYMBOLIC_LINK: "the path names a symbolic link"
    case SB_ERR_PERMISSION: "this user may not use the file"
    case SB_ERR_READ_ONLY: "the file can be read but not written"
    case SB_ERR_DISK_FULL: "the disk is full"
    case SB_ERR_CORRUPT: "the file is damaged"
    case SB_ERR_NOT_A_STORE: "the file is not a store"
    case SB_ERR_NEWER_VERSION: "the file was written by a newer version"
    case SB_ERR_NETWORK_FILE_SYSTEM: "the file lies on a network file system"
    case SB_ERR_BUSY: "another process held the store for too long"
    case SB_ERR_IO: "the system could not read or write the file"
    case SB_ERR_TOO_MANY_BREAKERS: "the store has no room for more breakers"
    case SB_ERR_STORE: "the store cannot be used"
    default: "unknown code"
    }
  }
}

@c @implementation
package func sb_code_text(_ code: CInt) -> UnsafePointer<CChar>? {
  unsafe CText.constant(CodeText.of(sb_code(rawValue: code)))
}

@c @implementation
package func sb_error_text() -> UnsafePointer<CChar>? { unsafe ErrorText.current }
