import SharedBreaker
import Testing

@testable import ControlKit

struct ArgumentParserTests {
  private func parse(_ words: String...) throws -> ParsedCommand {
    guard case .command(let parsed) = try ArgumentParser.parse(words.map { Array($0.utf8) }) else {
      throw ControlError(.usage, "no command", "help or version", "")
    }
    return parsed
  }

  @Test func `global options stand before or after the command`() throws {
    let before = try parse("--store", "/a b", "--json", "status")
    let after = try parse("status", "--json", "--store=/a b")
    #expect(before.global == after.global)
    #expect(before.global.store == "/a b")
    #expect(before.global.isJSON)
    #expect(!before.global.isQuiet)
  }

  @Test func `a one-letter option means its long form`() throws {
    #expect(try parse("status", "-q").global.isQuiet)
    #expect(try parse("-q", "status").global.isQuiet)
  }

  @Test func `a group is given by its name or by its number`() throws {
    #expect(try parse("init", "--group", "root").text("group") == "root")
    #expect(try parse("init", "--group", "0").text("group") == "root")
  }

  @Test func `the value of an option is attached or follows`() throws {
    #expect(try parse("trip", "x", "--for=5m").duration("for") == .seconds(300))
    #expect(try parse("trip", "--for", "250ms", "x").duration("for") == .milliseconds(250))
    #expect(try parse("trip", "x", "--reason=--a=b").text("reason") == "--a=b")
    #expect(try parse("trip", "x", "--reason", "-1").text("reason") == "-1")
  }

  @Test func `report accepts an error text of any bytes`() throws {
    for remark in ["--- boom", "-h", "\u{301}x", "\u{E0041}", "=", "-"] {
      #expect(try parse("report", "t", "failure", "--error", remark).text("error") == remark)
      #expect(try parse("report", "t", "failure", "--error=\(remark)").text("error") == remark)
    }
    let words: [[UInt8]] = ["report", "t", "failure", "--error"].map { Array($0.utf8) }
    let cut = words + [[0x63, 0xC3]]
    let attached = words.dropLast() + [Array("--error=c".utf8) + [0xC3]]
    for line in [cut, Array(attached)] {
      guard case .command(let parsed) = try ArgumentParser.parse(line) else {
        Issue.record("no command")
        continue
      }
      #expect(parsed.text("error") == "c\u{FFFD}")
    }
  }

  @Test(arguments: [["--json"], ["--elapsed=1s"], ["--"], []])
  func `report takes no other option as the value of --error`(words: [String]) {
    let recorder = Recorder()
    let line = ["report", "t", "failure", "--error"] + words
    #expect(ControlKit.run(arguments: line, console: recorder.console()).code == 64)
    #expect(recorder.errors.contains("missing value for --error"))
    #expect(recorder.errors.contains("or write --error=VALUE"))
  }

  @Test func `an option for help is found wherever it stands`() throws {
    for words in [["report", "--error", "--help"], ["report", "--error", "x", "-h"]] {
      guard case .help(let spec) = try ArgumentParser.parse(words.map { Array($0.utf8) }) else {
        Issue.record("\(words)")
        continue
      }
      #expect(spec?.name == "report")
    }
  }

  @Test func `the last of several values counts unless the option collects them`() throws {
    #expect(try parse("trip", "x", "--for", "1s", "--for", "2s").duration("for") == .seconds(2))
    let parsed = try parse("policy", "x", "--set", "jitter=5%", "--set", "open-for=1m")
    #expect(parsed.settings("set") == [.jitter: "5%", .openFor: "1m"])
  }

  @Test func `two dashes end the options`() throws {
    #expect(try parse("show", "--", "--json").text("NAME") == "--json")
    #expect(try parse("status", "a", "--", "-b").texts("NAME") == ["a", "-b"])
  }

  @Test func `a name that is given twice counts once`() throws {
    #expect(try parse("delete", "b", "a", "b").distinctTexts("NAME") == ["b", "a"])
  }

  @Test func `the words of another command pass through byte for byte`() throws {
    let words = ["run", "x", "--timeout", "1s", "--", "cp", "--"].map { Array($0.utf8) }
    guard case .command(let parsed) = try ArgumentParser.parse(words + [[0xFF, 0x2F]]) else {
      return
    }
    #expect(parsed.commandLine == [Array("cp".utf8), Array("--".utf8), [0xFF, 0x2F]])
    #expect(parsed.duration("timeout") == .seconds(1))
  }

  @Test func `the keys of a policy are options where it can be declared`() throws {
    let parsed = try parse("run", "x", "--failure-rate=50%", "--window", "1m", "--", "true")
    let policy = try #require(try BreakerPolicy.given(by: parsed))
    #expect(policy.failureRate == 0.5)
    #expect(policy.window == .seconds(60))
    #expect(try BreakerPolicy.given(by: parse("run", "x", "--", "true")) == nil)
  }

  @Test func `without a word there is the help, as an error`() {
    let recorder = Recorder()
    let ending = ControlKit.run(arguments: [[UInt8]](), console: recorder.console(width: 80))
    #expect(ending == .exit(.usage))
    #expect(recorder.errors.contains("history") && recorder.output.isEmpty)
  }

  @Test func `exit codes are given as lists of codes and ranges`() throws {
    let parsed = try parse("run", "x", "--ignore-exit", "3,10-12", "--", "true")
    #expect(parsed.codes("ignore-exit") == [3, 10, 11, 12])
    #expect(parsed.codes("permanent-exit") == [])
  }

  @Test(arguments: [
    (["--json"], "missing command: cbctl needs one"),
    (["statsu"], "did you mean 'status'?"),
    (["frobnicate"], "run 'cbctl --help'"),
    (["--jsn", "status"], "did you mean '--json'?"),
    (["--for", "1s", "trip", "x"], "put it after the command"),
    (["status", "--frobnicate"], "run 'cbctl status --help'"),
    (["status", "-x"], "unknown option '-x'"),
    (["status", "--json=yes"], "it takes none"),
    (["status", "--store"], "missing value for --store"),
    (["trip", "x", "--for", "--json"], "missing value for --for"),
    (["trip", "x", "--for", "soon"], "use a time such as 250ms, 30s, 5m, 1h30m or 1d"),
    (["trip", "x", "--for", "-5s"], "it is not a time"),
    (["status", "--state", "opne"], "cbctl: wrong --state 'opne': did you mean 'open'?"),
    (["report", "x", "succes"], "cbctl: wrong OUTCOME 'succes': did you mean 'success'?"),
    (["status", "--state", "half-open"], "did you mean 'half_open'?"),
    (["force", "x", "ajar"], "use forced_open, forced_closed, observe, automatic"),
    (["force", "x"], "missing MODE"),
    (["force", "x", "automatic", "--for", "1s"], "automatic has no end"),
    (["show"], "missing NAME"),
    (["show", "a", "b"], "unexpected argument 'b'"),
    (["show", ""], "it is empty"),
    (["show", "a\u{1b}[31m"], "'a\\u{1b}[31m'"),
    (["reset"], "neither names nor --all"),
    (["reset", "x", "--all"], "names and --all: they contradict each other"),
    (["run", "x", "ls"], "the command comes after --"),
    (["run", "x"], "missing COMMAND: it comes after --"),
    (["run", "x", "--"], "missing COMMAND: it comes after --"),
    (["run", "x", "--probes", "0", "--", "true"], "probes is 0: use 1 to 1000"),
    (["run", "x", "--probes", "many", "--", "true"], "use a whole number such as 5"),
    (["run", "x", "--ignore-exit", "0-9", "--", "true"], "the code 0 is a success"),
    (["run", "x", "--permanent-exit", "0", "--", "true"], "the code 0 is a success"),
    (["run", "x", "--fallback", "", "--", "true"], "use a command line for /bin/sh"),
    (["run", "x", "--ignore-exit", "256", "--", "true"], "use codes from 1 to 255"),
    (["run", "x", "--ignore-exit", "5-3", "--", "true"], "use codes from 1 to 255"),
    (["run", "x", "--ignore-exit", "1,,2", "--", "true"], "use codes from 1 to 255"),
    (["policy", "x", "--set", "open-for"], "it has no value"),
    (["policy", "x", "--set", "openfor=1m"], "did you mean 'open-for'?"),
    (["policy", "x", "--set", "open-for=1"], "use a time such as"),
    (["policy", "x", "--set", "max-failures=some"], "or none"),
    (["policy", "x", "--unset", "x"], "cbctl help policy-words"),
    (["policy", "x", "--set", "jitter=1%", "--unset", "jitter"], "they contradict each other"),
    (["report", "x", "success", "--error", "y"], "it describes a failure"),
    (
      ["report", "x", "failure", "--permanent", "--open-for", "1s"],
      "a failure has only one of them"
    ),
    (["policy", "x", "--set", "probes=1", "jitter=5%"], "write --set before each"),
    (["policy", "--set", "probes=1", "jitter=5%", "x"], "write --set before each"),
    (["policy", "x", "--unset", "probes", "jitter"], "write --unset before each"),
    (["run", "x", "--failure-rate", "0.5", "--", "true"], "did you mean '50%'?"),
    (["policy", "x", "--set", "failure-rate=25"], "did you mean '25%'?"),
    (["policy", "x", "--set", "failure-rate=1"], "use a rate such as 50%"),
    (["init", "--mode", "888"], "octal"),
    (["init", "--mode", "060"], "the owner must be able to read and write"),
    (["init", "--mode", "640"], "the group must be able to write too: use 660"),
    (["init", "--mode", "664"], "others must be able to write too: use 666"),
    (["init", "--mode", "770"], "the files of a store cannot be executable: use an octal mode"),
    (["init", "--group", "no-such-group"], "this host has no such group"),
    (["init", "--group", "4294967294"], "this host has no such group"),
    (["acquire", "x", "--owner-pid", "0"], "such as $$"),
    (["history", "--limit", "99999999999999999999"], "whole number"),
    (["history", "--limit", "-1"], "whole number"),
    (["history", "--limit", "0"], "--limit 0 without --follow"),
    (["page", "--limit", "0"], "whole number"),
  ])
  func `a wrong command line gets one line that says what, why and what to do`(
    words: [String], part: String
  ) {
    let recorder = Recorder()
    let code = ControlKit.run(arguments: words, console: recorder.console()).code
    #expect(code == 64)
    #expect(recorder.output.isEmpty)
    #expect(recorder.errors.hasPrefix("cbctl: "))
    #expect(recorder.errors.contains(part), "\(recorder.errors)")
    #expect(recorder.errors.filter { $0 == "\n" }.count == 1)
    #expect(recorder.errors.split(separator: ": ").count >= 3, "\(recorder.errors)")
  }

  @Test func `an argument that is not UTF-8 is a usage error`() {
    let recorder = Recorder()
    let words = [Array("show".utf8), [0x61, 0xFF]]
    #expect(ControlKit.run(arguments: words, console: recorder.console()).code == 64)
    #expect(recorder.errors.contains("it is not valid UTF-8"))
  }

  @Test(
    arguments: [
      ["show", "?"], ["acquire", "?"], ["run", "?", "--", "true"], ["status", "--?"], ["?"],
      ["status", "?"], ["--store", "?", "status"], ["init", "--group", "?"], ["help", "?"],
      ["report", "?", "success"], ["trip", "x", "--for", "?"], ["policy", "x", "--set", "?"],
      ["policy", "x", "--set", "open-for=?"], ["run", "x", "--ignore-exit", "?", "--", "true"],
    ])
  func `an argument of a megabyte is a usage error of one short line`(words: [String]) {
    let long = String(repeating: "ä", count: 500_000)
    let recorder = Recorder()
    let line = words.map { $0.replacing("?", with: long) }
    #expect(ControlKit.run(arguments: line, console: recorder.console()).code == 64)
    #expect(recorder.errors.utf8.count < 500)
  }
}
