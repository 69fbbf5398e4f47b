/// The result of one measurement, for several rows of the table that use it.
final class Latest<Value> {
  private var value: Value?
  private let take: () throws -> Value

  init(_ take: @escaping () throws -> Value) { self.take = take }

  /// Measures again, for the first of the rows.
  func renewed() throws -> Value {
    value = nil
    let taken = try take()
    value = taken
    return taken
  }

  /// Measures unless that was done already.
  func once() throws -> Value {
    if let value { return value }
    return try renewed()
  }

  /// Returns what the first of the rows has measured.
  func same() throws -> Value {
    guard let value else { throw BenchError("not measured: see above") }
    return value
  }
}
