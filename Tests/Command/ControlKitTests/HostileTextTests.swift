import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Text that is meant to mislead a terminal, a log or a program.
@Suite struct HostileTextTests {
  /// An erase sequence, ends of lines, an eight-bit control character and changes of direction.
  static let hostile = "a\u{1b}[2J\n\r\u{9b}1m\u{202e}\u{2066}\u{61c}\u{7f}\u{0}b"

  private static let bytes: [UInt8] = Array("x\u{1b}[2J".utf8) + [0xFF, 0xC0, 0x0A, 0x9B]

  /// The characters that may mislead a reader; ends of lines are harmless.
  private func steering(_ text: String) -> [Unicode.Scalar] {
    text.unicodeScalars.filter { $0 != "\n" && !Self.isHarmless($0) }
  }

  /// The code's rule, written a second time to check it.
  private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: false
    default: true
    }
  }

  private func run(_ arguments: [[UInt8]], store: String) -> Answer {
    let recorder = Recorder()
    let ending = ControlKit.run(
      arguments: [Array("--store".utf8), Array(store.utf8)] + arguments,
      console: recorder.console(width: 80, environment: ["NO_COLOR": "1"]))
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }

  @Test func `hostile text in arguments is answered with one harmless line`() throws {
    let bench = CommandBench()
    _ = bench("policy", "x", "--set", "probes=2")
    for spec in CommandSpec.all where spec.name != "help" {
      // `watch` goes on watching for a pattern that nothing matches yet.
      let isEndless = spec.name == "watch"
      var lines = [[spec.name, "--" + Self.hostile]]
      if !isEndless { lines.append([spec.name, Self.hostile]) }
      for option in spec.allOptions where option.kind != nil {
        // Output files go to the folder that the test removes.
        let value = (option.kind == .path ? "\(bench.folder)/" : "") + Self.hostile
        lines.append([spec.name, "x", "--\(option.name)=" + value])
        lines.append([spec.name, "x", "--\(option.name)", value])
      }
      for line in lines {
        let answer = bench.run(line + ["--"])
        #expect(steering(answer.errors + answer.output).isEmpty, "\(line): \(answer)")
        #expect(answer.errors.split(separator: "\n").count <= 1, "\(line): \(answer.errors)")
      }
      if isEndless { continue }
      let raw = run([Array(spec.name.utf8), Self.bytes], store: bench.path)
      #expect(steering(raw.errors + raw.output).isEmpty, "\(raw)")
    }
    for line in [[Self.hostile], ["help", Self.hostile], ["--store", Self.hostile, "status"]] {
      let answer = bench.run(line)
      #expect(answer.code != 0 && steering(answer.errors).isEmpty, "\(answer)")
    }
    let raw = run([Self.bytes], store: bench.path)
    #expect(raw.code == 64 && steering(raw.errors).isEmpty)
  }

  @Test func `hostile text is kept as it is and shown escaped`() throws {
    let directory = try TemporaryDirectory()
    let name = "pay\u{202e}sdnemy\u{61c}ap\u{200b}\u{ad}\u{feff}"
    let store = SharedStore(
      path: directory.store, options: StoreOptions(program: "worker" + Self.hostile))
    let breaker = try store.breaker(name, policy: BreakerPolicy(maxFailures: 1))
    try breaker.acquire().fail(error: Self.hostile)
    try breaker.force(.forcedOpen, reason: Self.hostile)
    store.close()
    for words in [
      ["status"], ["show", name], ["history"], ["check", name], ["doctor"], ["policy", name],
      ["run", name, "--", "true"], ["acquire", name],
      ["wait", name, "--state", "closed", "--timeout", "0s"],
      ["metrics"], ["metrics", "--label", "x=" + Self.hostile], ["page"], ["export"],
      ["__complete", "bash", "--", "cbctl show p"], ["__complete", "fish", "--", "show", "p"],
    ] {
      for json in ["page", "__complete"].contains(words[0]) ? [[]] : [[], ["--json"]] {
        let answer = run((words + json).map { Array($0.utf8) }, store: directory.store)
        #expect(steering(answer.output + answer.errors).isEmpty, "\(words): \(answer)")
        #expect(!(answer.output + answer.errors).isEmpty)
      }
    }
    // JSON is for programs, and gives the text as it was.
    let json = run(["history", "--json"].map { Array($0.utf8) }, store: directory.store).output
    #expect(json.contains(#"a\u001b[2J\n\r\u009b1m\u202e\u2066\u061c\u007f\u0000b"#))
    #expect(json.split(separator: "\n").count == 2)
  }

  @Test func `an argument of a megabyte gives only short output`() throws {
    let bench = CommandBench()
    _ = bench("policy", "x", "--set", "probes=2")
    let many = String(repeating: "n", count: 1_000_000)
    // To a reader, all of this is a single character.
    let one = "e" + String(repeating: "\u{301}", count: 500_000)
    for long in [many, one] {
      for spec in CommandSpec.all {
        let answer = bench.run([spec.name, long])
        #expect(answer.errors.utf8.count < 2_000, "\(spec.name)")
        #expect(answer.output.utf8.count < 4_000, "\(spec.name)")
      }
      for command in ["acquire", "trip", "show"] {
        let answer = bench.run([command, long])
        #expect(answer.code == 64)
        #expect(answer.errors.contains("bytes, and 255 is the limit"))
      }
      let answer = bench.run(["trip", "x", "--reason", long])
      #expect(answer.code == 0)
      #expect(bench("history", "--json").output.utf8.count < 4_000)
    }
    #expect(bench("status", "--json").output.utf8.count < 4_000)
  }

  @Test func `a store at its limit of breakers creates no other`() throws {
    let directory = try TemporaryDirectory()
    var options = StoreOptions()
    options.maximumBreakers = 20
    func run(_ words: [String]) -> Answer {
      let recorder = Recorder()
      let ending = ControlKit.run(
        arguments: ["--store", directory.store] + words, console: recorder.console(),
        options: options)
      return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
    }
    for number in 0..<20 {
      #expect(run(["policy", "x\(number)", "--set", "probes=2"]).code == 0)
    }
    for words in [
      ["policy", "one-more", "--set", "probes=2"], ["acquire", "one-more", "--max-failures", "3"],
      ["run", "one-more", "--max-failures", "3", "--on-store-failure", "fail", "--", "true"],
    ] {
      let answer = run(words)
      #expect(answer.code == 69, "\(answer)")
      #expect(answer.errors.contains("has 20 breakers, which is the limit"), "\(answer)")
    }
    let unguarded = run(["run", "one-more", "--", "false"])
    #expect(unguarded.code == 1)
    #expect(unguarded.errors.contains("has 20 breakers, which is the limit"))
    #expect(run(["status", "--json"]).output.split(separator: "\"name\"").count == 21)
    #expect(run(["run", "x1", "--", "false"]).errors.isEmpty)
  }
}
