@testable import ControlKit
import SharedBreaker

/// Checks that a parsed command line can be written as a command line that means the same.
///
/// Zero bytes separate the words.
enum ArgumentsTarget {
  static func run(_ bytes: [UInt8]) {
    let words = bytes.split(separator: 0, omittingEmptySubsequences: false).map { Array($0) }
    do throws(ControlError) {
      switch try ArgumentParser.parse(words) {
      case .version: break
      case .help(let spec): expect(spec.map { !HelpPage.of($0).isEmpty } ?? true, "no help")
      case .command(let parsed): hold(parsed)
      }
    } catch {
      expect(error.code == .usage, "\(error.code): \(error.description)")
      expectReadable(VisibleText.bare(error.description))
    }
  }

  private static func hold(_ parsed: ParsedCommand) {
    // Nothing here can write a factor such as 1e-05 without an exponent.
    let factors = parsed.values.values.joined().compactMap {
      if case .factor(let it) = $0 { it } else { nil }
    }
    if factors.contains(where: { "\($0)".contains("e") }) { return }
    let words = written(parsed)
    do throws(ControlError) {
      guard case .command(let again) = try ArgumentParser.parse(words) else {
        fatalError("\(words) is no longer a command")
      }
      expect(again.spec.name == parsed.spec.name, "another command: \(words)")
      expect(again.global == parsed.global, "other options: \(words)")
      expect(again.values == parsed.values, "other values: \(words)")
      expect(again.commandLine == parsed.commandLine, "another command line: \(words)")
    } catch {
      fatalError("\(words) is refused: \(error)")
    }
    do throws(ControlError) {
      if let policy = try BreakerPolicy.given(by: parsed) { expectValid(policy) }
    } catch {
      expectReadable(VisibleText.bare(error.description))
    }
  }

  /// Writes the command line with every word in its plainest form.
  private static func written(_ parsed: ParsedCommand) -> [[UInt8]] {
    var words: [String] = [parsed.spec.name]
    if let store = parsed.global.store { words.append("--store=\(store)") }
    if parsed.global.isJSON { words.append("--json") }
    if parsed.global.isColorless { words.append("--no-color") }
    if parsed.global.isQuiet { words.append("--quiet") }
    for option in parsed.spec.allOptions {
      for value in parsed.values[option.name] ?? [] {
        let text = written(value, as: option.kind)
        words.append("--\(option.name)" + (text.map { "=\($0)" } ?? ""))
      }
    }
    let places = parsed.spec.arguments.filter { $0.kind != .commandLine }.flatMap { argument in
      (parsed.values[argument.label] ?? []).map { written($0, as: argument.kind) ?? "" }
    }
    guard parsed.spec.takesCommandLine else {
      return (words + ["--"] + places).map { Array($0.utf8) }
    }
    return (words + places + ["--"]).map { Array($0.utf8) } + parsed.commandLine
  }

  /// Writes a value in the form that its option takes; nil for an option without a value.
  private static func written(_ value: ParsedValue, as kind: ValueKind?) -> String? {
    switch value {
    case .flag: nil
    case .text(let text): text
    case .duration(let duration): DurationText.format(duration)
    case .number(let number): String(number, radix: kind == .fileMode ? 8 : 10)
    case .rate(let rate): rate.description
    case .factor(let factor): "\(factor)"
    case .codes(let codes): codes.sorted().map { String($0) }.joined(separator: ",")
    case .heldCodes(let codes, let time):
      codes.sorted().map { String($0) }.joined(separator: ",")
        + (time.map { "=" + DurationText.format($0) } ?? "")
    case .setting(let key, let text): "\(key.rawValue)=\(text)"
    case .key(let key): key.rawValue
    }
  }

  private static func expectValid(_ policy: BreakerPolicy) {
    do throws(PolicyError) { try policy.validate() } catch {
      fatalError("\(policy) was taken: \(error)")
    }
  }
}
