internal import CSQLite

/// One prepared statement: bind, step, read, reset.
@safe final class Statement {
  private let handle: OpaquePointer
  private unowned let connection: Connection

  /// The code of a bind or read that failed because memory was short.
  private var failure = SQLITE_OK

  /// The known value of each parameter, if the statement keeps its bindings; nil if it does not.
  private var kept: UnsafeMutablePointer<KeptValue>?

  init(_ handle: OpaquePointer, on connection: Connection) {
    unsafe self.handle = handle
    self.connection = connection
  }

  deinit {
    unsafe sqlite3_finalize(handle)
    unsafe kept?.deallocate()
  }

  /// Moves to the next row; false if there is none left.
  func next() throws(StoreError) -> Bool {
    // Without this check, the statement would run with nothing in place of the value.
    try check()
    let code = unsafe sqlite3_step(handle)
    switch code {
    case SQLITE_ROW: return true
    case SQLITE_DONE: return false
    default: throw error(code)
    }
  }

  private func error(_ code: Int32) -> StoreError {
    let error = connection.error(code, during: "be used")
    reset()
    return error
  }

  /// Throws if a value was lost since the last reset.
  private func check() throws(StoreError) {
    if failure != SQLITE_OK { throw error(failure) }
  }

  /// Runs a statement that returns no rows.
  func run() throws(StoreError) {
    defer { reset() }
    while try next() {}
  }

  /// Runs a query and maps each of its rows to an element.
  func rows<Element>(
    _ element: (borrowing Statement) throws(StoreError) -> Element
  ) throws(StoreError) -> [Element] {
    defer { reset() }
    var elements: [Element] = []
    while try next() { elements.append(try element(self)) }
    return elements
  }

  /// Runs a query and maps its first row to an element; nil if it returns no rows.
  func first<Element>(
    _ element: (borrowing Statement) throws(StoreError) -> Element
  ) throws(StoreError) -> Element? {
    defer { reset() }
    guard try next() else { return nil }
    let first = try element(self)
    try check()
    return first
  }

  /// Prepares the statement for another run, with nothing bound unless it keeps what is bound.
  func reset() {
    unsafe sqlite3_reset(handle)
    if let kept = unsafe kept {
      if failure != SQLITE_OK { unsafe forget(kept) }
    } else {
      unsafe sqlite3_clear_bindings(handle)
    }
    failure = SQLITE_OK
  }

  private func note(_ code: Int32) { if code != SQLITE_OK { failure = code } }
}

/// Binding, with indexes from 1 as in SQL.
extension Statement {
  func bind(_ index: Int32, _ value: Int64?) {
    if let value {
      note(unsafe sqlite3_bind_int64(handle, index, value))
    } else {
      note(unsafe sqlite3_bind_null(handle, index))
    }
  }

  func bind(_ index: Int32, _ value: String?) {
    guard let value else {
      note(unsafe sqlite3_bind_null(handle, index))
      return
    }
    var text = value
    text.withUTF8 { bytes in
      unsafe bytes.withMemoryRebound(to: CChar.self) { characters in
        note(
          unsafe sqlite3_bind_text(
            handle, index, characters.baseAddress ?? Self.nothing,
            Int32(clamping: characters.count), Self.copied))
      }
    }
  }

  func bind(_ index: Int32, _ value: [UInt8]?) {
    guard let value else {
      note(unsafe sqlite3_bind_null(handle, index))
      return
    }
    unsafe value.withUnsafeBytes { bytes in
      note(
        unsafe sqlite3_bind_blob(
          handle, index, bytes.baseAddress ?? UnsafeRawPointer(Self.nothing),
          Int32(clamping: bytes.count), Self.copied))
    }
  }

  /// The address of an empty text or blob, because a null pointer would bind NULL.
  private nonisolated(unsafe) static let nothing: UnsafePointer<CChar> = {
    let pointer = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    unsafe pointer.initialize(to: 0)
    return unsafe UnsafePointer(pointer)
  }()

  /// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes at once.
  private nonisolated(unsafe) static let copied = unsafe unsafeBitCast(
    -1, to: sqlite3_destructor_type.self)
}

/// The value of a parameter of a statement that keeps its bindings.
enum KeptValue: Equatable {
  /// A text, a blob, or nothing yet.
  case other
  case null
  case integer(Int64)
}

/// Keeping what is bound from run to run, for a statement of which every run binds all parameters.
extension Statement {
  /// The value of each parameter; the statement keeps its bindings from now on.
  ///
  /// The memory is the statement's.
  func keepBindings() -> UnsafeMutablePointer<KeptValue> {
    if let kept = unsafe kept { return unsafe kept }
    let made = UnsafeMutablePointer<KeptValue>.allocate(capacity: parameters)
    unsafe forget(made)
    unsafe kept = unsafe made
    return unsafe made
  }

  private var parameters: Int { Int(unsafe sqlite3_bind_parameter_count(handle)) }

  private func forget(_ kept: UnsafeMutablePointer<KeptValue>) {
    unsafe kept.initialize(repeating: .other, count: parameters)
  }
}

/// Binds one parameter after another, unless the value is bound already.
///
/// Most columns of a row that is written again are as they were, and binding one costs ten times as much as comparing it.
@safe struct KeptBinder {
  private let statement: Statement
  private let kept: UnsafeMutablePointer<KeptValue>
  private var next: Int32 = 0

  init(_ statement: Statement) {
    self.statement = statement
    unsafe kept = unsafe statement.keepBindings()
  }

  /// Moves to the next parameter, and returns whether this value is bound to it; if not, it is about to be.
  private mutating func keeps(_ value: KeptValue) -> Bool {
    let before = unsafe kept[Int(next)]
    next += 1
    if value != .other, value == before { return true }
    unsafe kept[Int(next) - 1] = value
    return false
  }

  mutating func bind(_ value: Int64?) {
    if !keeps(value.map { .integer($0) } ?? .null) { statement.bind(next, value) }
  }

  mutating func bind(_ value: String?) {
    if !keeps(value == nil ? .null : .other) { statement.bind(next, value) }
  }

  mutating func bind(_ value: [UInt8]?) {
    if !keeps(value == nil ? .null : .other) { statement.bind(next, value) }
  }
}

/// Reading the current row, with columns from 0 as in C.
extension Statement {
  func integer(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(handle, column) }

  func integerOrNil(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }

  func text(_ column: Int32) -> String? {
    if isNull(column) { return nil }
    guard let bytes = unsafe sqlite3_column_text(handle, column) else {
      note(SQLITE_NOMEM)
      return nil
    }
    let count = Int(unsafe sqlite3_column_bytes(handle, column))
    return unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
  }

  func blob(_ column: Int32) -> [UInt8]? {
    if isNull(column) { return nil }
    let count = Int(unsafe sqlite3_column_bytes(handle, column))
    guard count > 0 else { return [] }
    guard let bytes = unsafe sqlite3_column_blob(handle, column) else {
      note(SQLITE_NOMEM)
      return []
    }
    return unsafe [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
  }

  private func isNull(_ column: Int32) -> Bool {
    unsafe sqlite3_column_type(handle, column) == SQLITE_NULL
  }
}
