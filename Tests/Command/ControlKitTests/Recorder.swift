import BreakerStore
import ControlKit
import TestSupport

/// A console that keeps what was printed, and whose output can fail.
final class Recorder: Sendable {
  private struct Streams {
    var output = ""
    var errors = ""
  }

  private let streams = Guarded(Streams())

  var output: String { streams.withLock { $0.output } }
  var errors: String { streams.withLock { $0.errors } }

  func console(
    width: Int? = nil, environment: [String: String] = [:], output: Console.Writing = .written,
    ask: (@Sendable (String) -> Bool)? = nil
  ) -> Console {
    var console = Console(
      output: { text in
        if output == .written { self.streams.withLock { $0.output += text } }
        return output
      },
      errorOutput: { text in
        self.streams.withLock { $0.errors += text }
        return .written
      },
      isOutputTerminal: width != nil, width: width, environment: environment, ask: ask)
    // A slow machine must not look like a slow relay.
    console.relayPatience = .seconds(600)
    console.publishPatience = .zero
    return console
  }
}

/// The output of a command line, and its exit code.
struct Answer: Equatable {
  var code: Int32
  var output: String
  var errors: String

  static func of(_ words: String...) -> Answer { of(words) }

  static func of(_ words: [String]) -> Answer {
    let recorder = Recorder()
    let ending = ControlKit.run(arguments: words, console: recorder.console())
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }
}
