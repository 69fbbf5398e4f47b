internal import BreakerCore
internal import CSQLite
internal import Glibc

/// Why a store could not be used.
///
/// The description is one line: what failed, why, and what to do. It never contains bound values.
public struct StoreError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kinds of failure that a caller may want to distinguish.
  ///
  /// A later version may add cases, so end a `switch` over a kind with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  public enum Kind: Sendable, Hashable {
    /// There is no store at the path.
    case missing

    /// The path leads through something that is not a directory.
    case notADirectory

    /// The path names a directory.
    case isDirectory

    /// The path names a symbolic link, which is never followed.
    case isSymbolicLink

    /// This user may not use the file.
    case permissionDenied

    /// The file can be read but not written.
    case readOnly

    /// The disk, or a quota, is full.
    case diskFull

    /// The file is damaged.
    case corrupt

    /// The file is not a store.
    case notAStore

    /// The file was written by a newer version.
    case newerVersion

    /// The file lies on a network file system, where processes cannot share it safely.
    case networkFileSystem

    /// Another process held the store for longer than the lock timeout.
    case busy

    /// The system could not read or write the file.
    case inputOutput

    /// The store has as many breakers as it may hold; the existing ones can still be used.
    case tooManyBreakers

    /// Anything else.
    case other
  }

  /// The kind of failure.
  public var kind: Kind

  /// SQLite's extended result code, or the system's error number.
  public var code: Int32

  /// The action that failed, the cause, and the remedy.
  public var description: String

  package init(_ kind: Kind, code: Int32 = 0, _ description: String) {
    self.kind = kind
    self.code = code
    self.description = description
  }

  /// Creates the error for a result code of SQLite in one of our own steps.
  ///
  /// `system` is the system's error number if a file could not be opened, read or written.
  init(sqlite code: Int32, during step: String, message: String, system: Int32, path: String) {
    let isSystems = [SQLITE_CANTOPEN, SQLITE_IOERR].contains(code & 0xFF) && system != 0
    let kind = Self.kind(ofSQLite: code, system: isSystems ? system : 0)
    if kind == .busy, Patience.wasInterrupted {
      self = .interrupted(path)
      return
    }
    let what = "the store \(StoreError.visible(path)) cannot \(step)"
    let cause = isSystems ? "\(message) (\(Self.systemMessage(system)))" : message
    let why = Self.why(kind, Self.visible(cause)) + Self.whose(path, kind)
    let advice = Self.advice(kind, system: isSystems ? system : 0)
    self.init(kind, code: code, "\(what): \(why)\(advice)")
  }

  /// Creates the error for a file on which a system call failed.
  init(errno code: Int32, doing what: String, path: String) {
    let kind = Self.kind(ofErrno: code)
    let why = Self.why(kind, Self.systemMessage(code)) + Self.whose(path, kind)
    let advice = Self.advice(kind, system: code)
    self.init(kind, code: code, "cannot \(what) \(StoreError.visible(path)): \(why)\(advice)")
  }

  /// Creates the error for a store that is not the one that this process has opened.
  static func replaced(_ path: String) -> StoreError {
    StoreError(
      .busy, code: ESTALE,
      "the store \(visible(path)) was replaced or restored meanwhile: try again")
  }

  /// Creates the error for a wait that was ended before its time, which says nothing about the store.
  static func interrupted(_ path: String) -> StoreError {
    StoreError(
      .busy, code: EINTR,
      "the wait for the store \(visible(path)) was interrupted: nothing has changed: try again")
  }

  /// Creates the error for a thread that has waited for another one, which waits for the store.
  package static func waitedInVain() -> StoreError {
    if Patience.wasInterrupted { return .interrupted("") }
    return StoreError(
      .busy,
      "the store cannot be read: another thread of this process still waits for it"
        + advice(.busy, system: 0))
  }

  /// Creates the error for a wait for room that was ended before its time.
  package static func interruptedWaiting(for name: String) -> StoreError {
    StoreError(
      .busy, code: EINTR,
      "the wait for room under the limit of \(visible(name)) was interrupted: nothing has changed:"
        + " try again")
  }

  /// Whether the state of the store is unknown, because the wait for it was ended early.
  package var isInterrupted: Bool { kind == .busy && code == EINTR }

  /// Whether the store was replaced, or its log deleted, while this process opened it or had it open.
  var isOfReplacement: Bool { kind == .busy && code == ESTALE }

  /// Whether others were in the way as long as this process could wait.
  package var isOfOthers: Bool { kind == .busy && !isInterrupted && !isOfReplacement }

  /// Whether this process, or the system, had no descriptor left.
  var isOfDescriptors: Bool { kind == .other && Self.isOfDescriptors(code) }

  static func isOfDescriptors(_ code: Int32) -> Bool { code == EMFILE || code == ENFILE }

  /// Whether this user may not do with the file what another one may.
  var isDenial: Bool { kind == .permissionDenied || kind == .readOnly }

  /// Creates the error for a file that this process has open for writing, and may not open so again.
  static func denied(_ path: String) -> StoreError {
    StoreError(
      .permissionDenied,
      "the store \(visible(path)) cannot be opened once more: the process has dropped the right to")
  }

  /// Creates the error for a command to a fleet that its store cannot pass on.
  static func noFleet(path: String) -> StoreError {
    StoreError(
      .other,
      "the store \(visible(path)) cannot pass a command on: it belongs to no fleet, or a host of the"
        + " fleet has used up the stamps of commands: start cbrelay, or run 'cbctl fleet leave'")
  }

  private static func why(_ kind: Kind, _ message: String) -> String {
    switch kind {
    case .corrupt: "the file is damaged (\(message))"
    case .notAStore: "it is not a breaker store"
    case .diskFull: "the disk is full"
    case .readOnly: "it is read-only"
    case .busy: "another process holds it"
    case .permissionDenied: "permission denied"
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .newerVersion,
      .networkFileSystem, .inputOutput, .tooManyBreakers, .other:
      message
    }
  }

  /// Says whose file is in the way, if that is the reason.
  private static func whose(_ path: String, _ kind: Kind) -> String {
    switch kind {
    case .permissionDenied, .readOnly: Denial.words(about: path).map { ": \($0)" } ?? ""
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .diskFull, .corrupt, .notAStore,
      .newerVersion, .networkFileSystem, .busy, .inputOutput, .tooManyBreakers, .other:
      ""
    }
  }

  private static func advice(_ kind: Kind, system: Int32) -> String {
    switch kind {
    case .corrupt:
      ": run 'cbctl doctor --repair', or move it and its -wal and -shm files away so that a new one"
        + " is created"
    case .notAStore: ": use another path"
    case .diskFull: ": free some space"
    case .readOnly: ": make it and its directory writable"
    case .busy: ": if this lasts, look for a stopped process that has it open"
    case .permissionDenied: ": ask its owner, or use another path"
    case .missing, .notADirectory, .isDirectory: ": use another path"
    case .inputOutput, .other: limitAdvice(system)
    case .isSymbolicLink, .newerVersion, .networkFileSystem, .tooManyBreakers: ""
    }
  }

  private static func kind(ofSQLite code: Int32, system: Int32) -> Kind {
    switch kind(ofErrno: system) {
    case .permissionDenied: return .permissionDenied
    case .diskFull: return .diskFull
    case .readOnly: return .readOnly
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .corrupt, .notAStore,
      .newerVersion, .networkFileSystem, .busy, .inputOutput, .tooManyBreakers, .other:
      return kind(ofSQLite: code)
    }
  }

  private static func kind(ofSQLite code: Int32) -> Kind {
    switch code & 0xFF {
    case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL: .busy
    case SQLITE_FULL: .diskFull
    case SQLITE_READONLY: .readOnly
    case SQLITE_CORRUPT, SQLITE_ERROR, SQLITE_SCHEMA, SQLITE_CONSTRAINT, SQLITE_MISMATCH: .corrupt
    case SQLITE_NOTADB: .notAStore
    case SQLITE_PERM, SQLITE_AUTH: .permissionDenied
    case SQLITE_CANTOPEN: .inputOutput
    case SQLITE_IOERR: .inputOutput
    default: .other
    }
  }

  /// Whether it may help to close the store and open it again.
  ///
  /// A store that is busy or full was opened well enough.
  package var mayEndByReopening: Bool {
    switch kind {
    case .busy, .diskFull, .tooManyBreakers: false
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .permissionDenied, .readOnly,
      .corrupt, .notAStore, .newerVersion, .networkFileSystem, .inputOutput, .other:
      true
    }
  }

  /// The text with characters that would control a terminal made visible.
  static func visible(_ text: String) -> String { OutsideText.visible(text) }
}

extension StoreError {
  static func kind(ofErrno code: Int32) -> Kind {
    switch code {
    case ENOENT: .missing
    case ENOTDIR: .notADirectory
    case EISDIR: .isDirectory
    case ELOOP: .isSymbolicLink
    case EACCES, EPERM: .permissionDenied
    case EROFS: .readOnly
    case ENOSPC, EDQUOT: .diskFull
    case EIO: .inputOutput
    default: .other
    }
  }

  static func systemMessage(_ code: Int32) -> String {
    switch code {
    case ENOENT: "there is no such file or directory"
    case ENOTDIR: "a part of the path is not a directory"
    case EISDIR: "it is a directory"
    case ELOOP: "it is a symbolic link, which is never followed"
    case EILSEQ: "the path is not UTF-8"
    default: unsafe String(cString: strerror(code)).lowercased()
    }
  }

  /// Advice if a limit of this process is in the way; empty if none is.
  static func limitAdvice(_ code: Int32) -> String {
    switch code {
    case EMFILE: ": raise 'ulimit -n'"
    case EFBIG: ": raise 'ulimit -f'"
    default: ""
    }
  }
}
