/// Who does something, as the history names them.
package struct HistoryAuthor: Sendable, Hashable {
  package var pid: Int32
  package var program: String
  package var mandate: Mandate

  package init(pid: Int32, program: String, mandate: Mandate = .none) {
    self.pid = pid
    self.program = program
    self.mandate = mandate
  }

  /// For whom a program acts, and what it runs for them; a program that acts for itself has neither.
  package struct Mandate: Sendable, Hashable {
    package var user: String?

    /// The name of a command without its arguments, which may be secret.
    package var command: String?

    package init(user: String?, command: String?) {
      self.user = user.map { OutsideText.cut($0, to: OutsideText.longestName) }
      self.command = command.map { OutsideText.cut($0, to: OutsideText.longestName) }
    }

    package static let none = Mandate(user: nil, command: nil)
  }

  /// The author in words: `worker (pid 4711)`, `deploy, via cbctl` or `curl, by deploy, via cbctl`.
  ///
  /// A tool with a mandate ends with its work, so its process number would name nobody.
  package var words: String {
    switch (mandate.command, mandate.user) {
    case (let command?, let user?): "\(command), by \(user), via \(program)"
    case (let command?, nil): "\(command), via \(program)"
    case (nil, let user?): "\(user), via \(program)"
    case (nil, nil): "\(program) (pid \(pid))"
    }
  }
}
