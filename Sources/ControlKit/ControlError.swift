import SharedBreaker

/// Why a command failed, as one line for people and one code for programs.
struct ControlError: Error, Hashable {
  var code: ExitCode

  /// What failed, why, and what to do, without the program's name.
  var description: String

  init(_ code: ExitCode, _ what: String, _ why: String, _ remedy: String) {
    self.code = code
    description = "\(what): \(why): \(remedy)"
  }

  init(_ code: ExitCode, _ what: String, _ remedy: String) {
    self.init(code, describedAs: "\(what): \(remedy)")
  }

  private init(_ code: ExitCode, describedAs description: String) {
    self.code = code
    self.description = description
  }

  init(_ error: StoreError) { self.init(.storeUnavailable, describedAs: error.description) }

  /// An error of the library, in its own words, with the exit code for it.
  init(_ error: BreakerError) {
    let code: ExitCode =
      switch error {
      case .rejected: .rejected
      case .store, .noRelay: .storeUnavailable
      default: .usage
      }
    self.init(code, describedAs: error.description)
  }

  /// A command line that cannot be understood.
  static func usage(_ what: String, _ why: String, help command: String?) -> ControlError {
    let page = command.map { "cbctl \($0) --help" } ?? "cbctl --help"
    return ControlError(.usage, what, why, "run '\(page)'")
  }

  /// A name that no breaker has; without a similar one, the remedy says where to find names.
  static func noBreaker(
    _ name: String, among names: [String],
    remedy: String = "run 'cbctl status' to list all names"
  ) -> ControlError {
    let remedy =
      Suggestion.nearest(to: name, among: names).map { "did you mean \(VisibleText.quoted($0))?" }
      ?? remedy
    return ControlError(.noBreaker, "no breaker \(VisibleText.quoted(name))", remedy)
  }
}
