internal import Glibc

/// A real process that uses a breaker as its test commands.
///
/// It reads one command a line and answers each with one line; Tests/Evidence/Puppet implements them all.
package final class Puppet {
  package let process: Child

  private let stage: Stage?

  // The options: `lock-timeout=MS`, `on-failure=local|permit|reject|throw`, `user=nobody`,
  // `own-name` for the name that the kernel knows, and `watch` to make `stop-at` possible.
  /// Starts a puppet on the stage's clock, if need be by a command such as `unshare --pid`.
  package init(
    on stage: Stage, store: String? = nil, startedBy launcher: [String] = [],
    _ options: [String] = []
  ) throws {
    // Kept, because the stage removes its files when it is released.
    self.stage = stage
    process = try Self.start(
      store ?? stage.store, by: launcher, ["clock=\(stage.clock.path)"] + options)
  }

  /// Starts a puppet on the host's own clock.
  ///
  /// All processes of its store must have that clock: one whose clock is a stage's belongs, for the
  /// others, to another boot.
  package init(
    onHostClock store: String, startedBy launcher: [String], _ options: [String] = []
  ) throws {
    stage = nil
    process = try Self.start(store, by: launcher, options)
  }

  private static func start(
    _ store: String, by launcher: [String], _ options: [String]
  ) throws -> Child {
    let words = ["store=\(store)"] + options
    guard !launcher.isEmpty else { return try Child(program, words) }
    return try Child("/usr/bin/env", launcher + [program] + words)
  }

  // Killed before the stage is released: it must not write to a directory that is being removed.
  deinit { process.kill() }

  package static let program = BuiltProducts.path(of: "puppet")

  package var pid: Int32 { process.pid }

  package func send(_ command: String) throws { try process.send(command) }

  package func answer() throws -> String {
    guard let line = try process.line() else {
      throw SupportError("puppet \(pid) ended with \(process.waitForEnd())")
    }
    return line
  }

  /// Sends a command and waits for its answer.
  @discardableResult
  package func ask(_ command: String) throws -> String {
    try send(command)
    return try answer()
  }

  package func kill() { process.kill() }
}

/// Several puppets that do the same thing at the same time.
extension Array where Element == Puppet {
  /// Sends a command to all puppets before it waits for any answer, so that they all run at once.
  @discardableResult
  package func ask(_ command: String) throws -> [String] {
    for puppet in self { try puppet.send(command) }
    return try map { try $0.answer() }
  }
}

extension Array where Element == String {
  /// The number of answers that begin with a word.
  package func count(_ word: String) -> Int {
    count { $0.split(separator: " ").first.map { $0 == word } ?? false }
  }
}
