internal import BreakerStore
internal import CSharedBreaker
internal import SharedBreaker

/// Why a function of the C library did not do what it was asked: a code and its words.
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
    // No function of the C library gives a command to a fleet.
    case .noRelay: self.init(SB_ERR_STORE, error.description)
    case .store(let error): self.init(error)
    }
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

/// Throws a failure for what a store throws.
func throwingFailures<Answer>(
  _ body: () throws(StoreError) -> Answer
) throws(Failure) -> Answer {
  do throws(StoreError) { return try body() } catch { throw Failure(error) }
}

/// Throws a failure for what a breaker throws.
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
