import Glibc
import TestSupport

/// The options of a torture, and the loop that plays its phases.
struct TortureOptions {
  var seconds = 60
  var seed = UInt64.random(in: 0...999_999_999)

  /// The only phase to play; nil for all of them.
  var only: Int?

  /// The values of the options that only one of the programs has.
  private(set) var others: [String: [String]] = [:]

  init(_ arguments: [String], others names: Set<String> = []) throws {
    var rest = arguments[...]
    while let word = rest.popFirst() {
      guard let value = rest.popFirst() else { throw SupportError("\(word) needs a value") }
      switch word {
      case "--seconds": seconds = try Self.number(value, of: word)
      case "--seed": seed = UInt64(try Self.number(value, of: word))
      case "--phase": only = try Self.number(value, of: word)
      case _ where names.contains(word): others[word, default: []].append(value)
      default: throw SupportError("there is no option \(word)")
      }
    }
  }

  private static func number(_ text: String, of option: String) throws -> Int {
    guard let number = Int(text), number >= 0 else {
      throw SupportError("\(option) \(text): give a number")
    }
    return number
  }

  /// Plays one phase after the other until the time is over, and ends the process with 1 if one of them
  /// has found something: then the directory of the phase stays.
  ///
  /// - Parameters:
  ///   - word: The word of `scripts/torture` that starts this program.
  ///   - play: Plays a phase. It says what is in it before it begins.
  func play(
    _ word: String,
    _ play: (_ number: Int) throws -> (
      summary: String, violations: [Violation], directory: TemporaryDirectory
    )
  ) rethrows {
    Self.say("seed \(seed)")
    let deadline = ContinuousClock.now + .seconds(seconds)
    var number = only ?? 0
    repeat {
      let (summary, violations, directory) = try play(number)
      Self.say("  \(summary), violations \(violations.count)")
      guard violations.isEmpty else {
        for violation in violations.prefix(50) { Self.say("  \(violation)") }
        Self.say("all of it is kept in \(directory.path); to make the same choices again:")
        Self.say("  scripts/torture \(word) --seed \(seed) --phase \(number)")
        // Without an end of its own, the directory stays.
        exit(1)
      }
      number += 1
    } while only == nil && ContinuousClock.now < deadline
  }

  /// Prints a line at once, even into a file.
  static func say(_ line: String) { write(line, to: 1) }

  /// Runs a program of the torture; whatever it throws ends the process with 2.
  static func complain(_ error: any Error) -> Never {
    write("torture: \(error)", to: 2)
    exit(2)
  }

  private static func write(_ line: String, to descriptor: Int32) {
    let bytes = Array((line + "\n").utf8)
    _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
  }
}
