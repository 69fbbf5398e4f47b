/// What one measurement has found, for several rows of the table that look at the same.
final class Latest<Value> {
  private var value: Value?
  private let take: () throws -> Value

  init(_ take: @escaping () throws -> Value) { self.take = take }

  /// Measures anew: for the first of the rows.
  func renewed() throws -> Value {
    value = nil
    let taken = try take()
    value = taken
    return taken
  }

  /// What the first of the rows has measured.
  func same() throws -> Value {
    guard let value else { throw BenchError("not measured: see above") }
    return value
  }
}
