internal import CSQLite

/// One prepared statement: bind, step, read, reset.
@safe final class Statement {
  private let handle: OpaquePointer
  private unowned let connection: Connection

  /// The code of a bind or read that failed because memory was short.
  private var failure = SQLITE_OK

  init(_ handle: OpaquePointer, on connection: Connection) {
    unsafe self.handle = handle
    self.connection = connection
  }

  deinit { unsafe sqlite3_finalize(handle) }

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

  /// Prepares the statement for another run, with nothing bound.
  func reset() {
    unsafe sqlite3_reset(handle)
    unsafe sqlite3_clear_bindings(handle)
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

  /// What an empty text or blob points to, because a null pointer would bind NULL.
  private nonisolated(unsafe) static let nothing: UnsafePointer<CChar> = {
    let pointer = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    unsafe pointer.initialize(to: 0)
    return unsafe UnsafePointer(pointer)
  }()

  /// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes at once.
  private nonisolated(unsafe) static let copied = unsafe unsafeBitCast(
    -1, to: sqlite3_destructor_type.self)
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
