import SharedBreaker

/// What the name of a breaker may be: the library's rule, applied before anything is touched.
enum NameRule {
  static let remedy = "use 1 to 255 bytes of text without control characters"

  /// Says what is wrong with a name, or nil if it may be used.
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
