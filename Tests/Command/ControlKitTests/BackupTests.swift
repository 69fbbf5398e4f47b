import SharedBreaker
import Testing

@testable import ControlKit

/// Breakers that are exported from one store and imported into another.
struct BackupTests {
  private let bench = CommandBench()

  private func fill() {
    _ = bench("run", "open", "--max-failures", "1", "--open-for", "1m", "--", "sh", "-c", "exit 3")
    _ = bench("policy", "set", "--set", "probes=2", "--set", "open-for=2m")
    _ = bench("policy", "forced", "--set", "jitter=5%")
    _ = bench("force", "forced", "forced_open", "--for", "1h", "--reason", "a \"b\"\\c é")
    _ = bench("run", "it's $HOME; x", "--", "true")
  }

  private func export(_ bench: CommandBench) -> String {
    let path = "\(bench.folder)/export"
    Golden.write(bench("export").output, to: path)
    return path
  }

  @Test func `an export matches its snapshot`() {
    fill()
    let pid = #/cbctl \(pid \d+\)/#
    Golden.expect(
      bench("export").output.replacing(pid, with: "cbctl (pid 7)"), "export.ndjson")
    #expect(bench("export", "s*").output.split(separator: "\n").count == 1)
    #expect(bench("export", "nobody").code == 66)
  }

  @Test func `exported breakers are the same after an import`() {
    fill()
    let other = CommandBench()
    let path = export(bench)
    let dry = other("import", path, "--dry-run")
    #expect(dry.output.split(separator: "\n").count == 4)
    #expect(dry.output.hasPrefix("forced: would be created, forced_open\n"))
    #expect(other.files.isEmpty)
    #expect(
      other("import", path).output == """
        forced: created, forced_open
        it's $HOME; x: created, closed
        open: created, open
        set: created, closed

        """)
    #expect(other("export").output == bench("export").output)
    #expect(other("show", "open").output.contains("max-failures"))
    #expect(other("check", "open").output == "rejected: open, retry in 1m\n")
    #expect(other("history", "open").output.contains("restored"))
    other.advance(by: 60_000)
    #expect(other("run", "open", "--", "true").code == 0)
  }

  @Test func `an import subtracts the time since the export from the times that were left`() {
    fill()
    let path = export(bench)
    let later = CommandBench()
    later.advance(by: 45_000)
    _ = later("import", path)
    #expect(later("check", "open").output == "rejected: open, retry in 15s\n")
    let muchLater = CommandBench()
    muchLater.advance(by: 86_400_000)
    _ = muchLater("import", path)
    #expect(muchLater("check", "open").output.hasPrefix("permitted: open, the next call is a"))
    #expect(muchLater("check", "forced").output == "permitted: closed\n")
    // A clock that was set back subtracts nothing.
    let earlier = CommandBench()
    earlier.advance(by: -86_400_000)
    _ = earlier("import", path)
    #expect(earlier("check", "open").output == "rejected: open, retry in 1m\n")
  }

  @Test func `nothing is imported if one of the breakers already exists`() {
    fill()
    let path = export(bench)
    let other = CommandBench()
    _ = other("policy", "set", "--set", "probes=9")
    let refused = other("import", path)
    #expect(refused.code == 1)
    #expect(
      refused.errors == "cbctl: nothing was imported: 'set' already exists: use --replace to "
        + "replace what exists\n")
    #expect(other("status", "--json").output.contains("\"name\":\"set\""))
    #expect(!other("status", "--json").output.contains("\"name\":\"open\""))
    #expect(
      other("import", path, "--replace", "--json").output
        == "{\"created\":[\"forced\",\"it's $HOME; x\",\"open\"],\"replaced\":[\"set\"],"
        + "\"dry_run\":false}\n")
    #expect(other("export").output == bench("export").output)
    // A replaced breaker is as it was exported, whatever happened to it since.
    _ = other("trip", "set")
    _ = other("force", "open", "forced_closed")
    _ = other("import", path, "--replace", "--quiet")
    #expect(other("export").output == bench("export").output)
  }

  @Test(arguments: [
    ("{", "a word in quotes is missing"),
    (#"{"version":2}"#, "it has version 2, and only version 1 can be read"),
    (#"{"name":"x"}"#, "its version is missing"),
    (#"{"version":1,"name":7}"#, "its name is not valid"),
    (#"{"version":1,"name":"x","state":"ajar"}"#, "its state is not valid"),
    (line(name: "a\\nb"), "control character"),
    (line(name: "first"), "its name occurs twice"),
    (line(operatorPolicy: "probes=none"), "probes"),
    (line(operatorPolicy: "open-max=1s"), "open-max"),
    (line(openFor: "-1"), "its open_for_ms is not valid"),
    (line(openFor: "\"1\""), "its open_for_ms is not valid"),
    (line(openFor: "[1]"), "its open_for_ms is not valid"),
    (line(openFor: "{\"ms\":1}"), "its open_for_ms is not valid"),
    (line(openFor: "[1"), "a , or ] is missing"), (line(openFor: "{1:2}"), "a word in quotes"),
    (line(openFor: "[01]"), "a number begins with 0"), (line(openFor: "[}"), "a value is missing"),
    (line(openFor: "[1,]"), "a value is missing"), (line(openFor: "{\"a\":1]"), "a , or } is"),
  ])
  func `one wrong line is reported and nothing is imported`(
    wrong: String, why: String
  ) {
    let path = "\(bench.folder)/export"
    Golden.write(Self.line(name: "first") + "\n\n\(wrong)\n", to: path)
    let answer = bench("import", path)
    #expect(answer.code == 1)
    #expect(answer.errors.hasPrefix("cbctl: nothing was imported: line 3 of '"))
    #expect(answer.errors.contains(why), "\(answer.errors)")
    #expect(bench.files == ["export"])
  }

  @Test func `an import without breakers says so`() {
    let path = "\(bench.folder)/export"
    for text in ["", "\n\n"] {
      Golden.write(text, to: path)
      let note = "cbctl: nothing was imported: the input has no breakers\n"
      for words in [["import", path], ["import", path, "--dry-run"]] {
        #expect(bench.run(words) == Answer(code: 0, output: "", errors: note))
        #expect(bench.run(words + ["--quiet"]) == Answer(code: 0, output: "", errors: ""))
      }
      #expect(bench("import", path, "--json").errors == note)
    }
  }

  @Test func `an import accepts the line ends of Windows`() {
    let path = "\(bench.folder)/export"
    let lines = ["a", "b"].map { Self.line(name: $0) }
    Golden.write(lines.joined(separator: "\r\n\r\n") + "\r\n", to: path)
    #expect(bench("import", path).output == "a: created, open\nb: created, open\n")
    Golden.write("\r\n" + lines[0] + "\r\n{\r\n", to: path)
    #expect(bench("import", path).errors.contains("line 3 of"))
  }

  @Test(arguments: [
    "true", "null", "7", #""text""#, "[]", "{}", #"[1,"two",[null,[]],{"a":{}}]"#,
    #"{"list":[1,2,{"name":"y"}],"name":"z"}"#, " [ 1 , { } ] ", #"{"a":{"b":{"c":[[[]]]}}}"#,
  ])
  func `an import ignores unknown members of any kind`(value: String) {
    let path = "\(bench.folder)/export"
    let line = Self.line(name: "x")
    for text in ["\(line.dropLast()),\"more\":\(value)}", "{\"more\":\(value),\(line.dropFirst())"]
    {
      Golden.write(text, to: path)
      #expect(bench("import", path, "--replace").output.hasPrefix("x: "))
    }
  }

  @Test func `an unknown member may be nested as deep as its line is long`() {
    let path = "\(bench.folder)/export"
    for (opening, closing) in [("[", "]"), ("{\"a\":", "}")] {
      let value = [opening, "0", closing].map {
        String(repeating: $0, count: $0 == "0" ? 1 : 200_000)
      }
      Golden.write("\(Self.line(name: "x").dropLast()),\"more\":\(value.joined())}", to: path)
      #expect(bench("import", path, "--replace").output.hasPrefix("x: "))
    }
  }

  @Test func `a missing file cannot be imported`() {
    #expect(bench("import", "\(bench.folder)/nothing").errors.contains("No such file"))
  }

  private static func line(
    name: String = "x", openFor: String = "1000", operatorPolicy: String = ""
  ) -> String {
    #"{"version":1,"exported_at":"2026-09-21T14:13:20.000Z","name":"\#(name)","state":"open","#
      + #""open_for_ms":\#(openFor),"open_reason":null,"mode":"automatic","mode_for_ms":null,"mode_reason":null,"#
      + #""mode_set_by":null,"code_policy":null,"operator_policy":"\#(operatorPolicy)"}"#
  }

  @Test func `a timestamp is read as it is printed`() {
    for milliseconds: Int64 in [0, 951_782_399_999, 951_868_800_000, 4_107_542_400_001, -1] {
      let time = BreakerTimestamp(millisecondsSince1970: milliseconds)
      #expect(BreakerTimestamp(time.description) == time)
    }
    for text in ["", "2026-02-30T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01"] {
      #expect(BreakerTimestamp(text) == nil)
    }
  }
}
