import SharedBreaker

/// The library's rule for names, which a command applies before it does anything.
enum NameRule {
  static let remedy = "use 1 to 255 bytes of text without control characters"

  /// Returns what is wrong with a name, or nil if it is valid.
  static func complaint(about name: String) -> String? {
    do throws(BreakerError) {
      try Breaker.validate(name: name)
      return nil
    } catch {
      guard case .invalidName(let complaint) = error else { return error.description }
      return complaint
    }
  }
}
