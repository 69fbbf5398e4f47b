import ControlKit
import Testing

/// Calls that are held, by hand and by what a command has ended with.
struct HoldCommandTests {
  @Test func `a hold rejects calls with the time that is left, and ends by itself`() {
    let bench = CommandBench()
    _ = bench("run", "llm", "--", "true")
    let held = bench("hold", "llm", "--for", "2m", "--reason", "quota")
    #expect(held == Answer(code: 0, output: "llm: closed, held for 2m (quota)\n", errors: ""))
    bench.advance(by: 1_000)
    let check = bench("check", "llm")
    #expect(check.code == 75)
    #expect(check.output == "rejected: closed, held for 1m 59s (quota)\n")
    let run = bench("run", "llm", "--", "true")
    #expect(run.code == 75)
    #expect(
      run.errors == "cbctl: llm: rejected: the resource has asked to be left alone (quota): "
        + "try again in 1m 59s\n")
    #expect(bench("run", "llm", "--json", "--", "true").output.contains(#""cause":"held""#))
    bench.advance(by: 119_000)
    #expect(bench("check", "llm").code == 0)
    #expect(bench("run", "llm", "--", "true").code == 0)
    #expect(bench("status", "llm", "--json").output.contains(#""hold":null"#))
    let history = bench("history", "llm")
    #expect(history.output.contains("quota: held for 2m"))
    #expect(history.output.contains("a call succeeded, after 2m"))
  }

  @Test func `a shorter hold changes nothing, and says so`() {
    let bench = CommandBench()
    _ = bench("hold", "llm", "--for", "2h")
    let shorter = bench("hold", "llm", "--for", "1m")
    #expect(shorter.code == 0)
    #expect(shorter.output == "llm: closed, held for 2h\n")
    #expect(
      shorter.errors == "cbctl: llm: held for another 2h already: nothing was changed\n")
  }

  @Test func `a hold is ended by hand`() {
    let bench = CommandBench()
    _ = bench("hold", "llm", "--for", "2h")
    #expect(bench("hold", "llm", "--end", "--reason", "paid").output == "llm: closed\n")
    #expect(bench("check", "llm").code == 0)
    let again = bench("hold", "llm", "--end")
    #expect(again.code == 0)
    #expect(again.errors == "cbctl: llm: not held: nothing was changed\n")
    #expect(bench("hold", "other", "--end").code == 66)
  }

  @Test func `a trip and a mode until an instant`() {
    let bench = CommandBench()
    let open = bench("trip", "a", "--until", "2026-09-21T18:13:20Z")
    #expect(open.output == "a: open, retry in 4h\n")
    #expect(bench("force", "b", "forced_open", "--until", "23:59").code == 0)
    #expect(bench("show", "b").output.contains("mode until  "))
    for words in [["trip", "a"], ["force", "a", "observe"]] {
      let both = bench.run(words + ["--for", "1h", "--until", "23:59"])
      #expect(both.code == 64 && both.errors.contains("a change has one end"), "\(both)")
      let past = bench.run(words + ["--until", "1999-01-01T00:00:00Z"])
      #expect(past.code == 64 && past.errors.contains("that time has passed"), "\(past)")
    }
    #expect(bench("force", "a", "automatic", "--until", "23:59").code == 64)
  }

  @Test func `a hold until an instant or a time of day`() {
    let bench = CommandBench()
    #expect(bench("hold", "a", "--until", "2099-01-01T00:00:00Z").output.contains("held for"))
    let past = bench("hold", "b", "--until", "1999-01-01T00:00:00Z")
    #expect(past.code == 64)
    #expect(past.errors.contains("that time has passed"))
    #expect(bench("hold", "c", "--until", "23:59").code == 0)
    #expect(bench("hold", "d", "--until", "25:00").code == 64)
    #expect(bench("hold", "d", "--until", "9:30").code == 64)
  }

  @Test(arguments: [[], ["--for", "1m", "--end"], ["--for", "1m", "--until", "14:05"]])
  func `a hold has one end`(words: [String]) {
    let bench = CommandBench()
    let answer = bench.run(["hold", "llm"] + words)
    #expect(answer.code == 64)
    #expect(answer.errors.contains("a hold has one end"))
  }

  @Test func `an exit code that asks to be left alone is no failure`() {
    let bench = CommandBench()
    let words = ["--max-failures", "1", "--hold-exit", "29=10s", "--hold-exit", "30"]
    func run(_ code: Int) -> Answer {
      bench.run(["run", "sync"] + words + ["--", "sh", "-c", "exit \(code)"])
    }
    #expect(run(29).code == 29)
    #expect(bench("check", "sync").output == "rejected: closed, held for 10s (exit code 29)\n")
    #expect(run(0).code == 75)
    bench.advance(by: 10_000)
    #expect(run(0).code == 0)
    for _ in 0..<2 { #expect(run(30).code == 30) }
    #expect(bench("check", "sync").code == 0)
    #expect(run(30).code == 30)
    #expect(bench("check", "sync").code == 75)
    #expect(bench("status", "sync", "--json").output.contains(#""failures":0"#))
  }

  @Test func `success is no code that asks to be left alone`() {
    let answer = CommandBench().run(["run", "sync", "--hold-exit", "0-3=5s", "--", "true"])
    #expect(answer.code == 64 && answer.errors.contains("the code 0 is a success"))
  }

  @Test func `an answer in a header dump is judged by its status, and its time holds calls`() {
    let bench = CommandBench()
    let dump = "\(bench.folder)/h.txt"
    func run(_ answer: String, _ code: Int = 0, _ words: String...) -> Answer {
      bench.run(
        ["run", "api", "--max-failures", "9", "--http-headers", dump] + words
          + ["--", "sh", "-c", "printf '\(answer)' > '\(dump)'; exit \(code)"])
    }
    func failures() -> String? {
      let totals = bench("status", "api", "--json").output.split(separator: "\"totals\":").last
      return totals?.split(separator: "\"failures\":").dropFirst().first?.split(separator: ",")
        .first.map {
          String($0)
        }
    }
    let ok = #"HTTP/1.1 200 OK\r\n\r\n"#
    let slowDown =
      #"HTTP/1.1 302 Found\r\nRetry-After: 7\r\n\r\nHTTP/2 103 \r\n\r\nHTTP/2 429 \r\nretry-after: 60\r\n\r\n"#
    #expect(run(ok) == Answer(code: 0, output: "", errors: ""))
    let held = run(slowDown)
    #expect(held == Answer(code: 0, output: "", errors: "cbctl: api: held for 1m (HTTP 429)\n"))
    #expect(bench("check", "api").output == "rejected: closed, held for 1m (HTTP 429)\n")
    #expect(run(ok).code == 75)
    bench.advance(by: 60_000)
    // A command that has got no answer leaves the one of the last run in the file.
    let silent = bench("run", "api", "--http-headers", dump, "--", "sh", "-c", "exit 7")
    #expect(silent.code == 7)
    #expect(bench("check", "api").code == 0)
    #expect(bench("status", "api", "--json").output.contains(#""last_error":"exit code 7""#))
    let forgotten = bench("run", "api", "--http-headers", dump, "--", "true")
    #expect(forgotten.code == 0)
    #expect(
      forgotten.errors.contains(
        "no answer was written to '\(dump)': the exit code alone was judged"))
    // The server works, so a code for a refused request is no failure, but one for a body that breaks off is.
    #expect(run(#"HTTP/1.1 404 Not Found\r\n\r\n"#, 22).code == 22)
    #expect(failures() == "1")
    #expect(run(ok, 18).code == 18)
    #expect(failures() == "2")
    #expect(run(#"HTTP/1.1 500 Oops\n\n"#).code == 0)
    #expect(failures() == "3")
    #expect(run(#"HTTP/1.1 500 Oops\n\n"#, 22, "--ignore-exit", "22").code == 22)
    #expect(failures() == "3")
    #expect(
      run(#"HTTP/1.1 403 No\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 30\r\n\r\n"#, 22).code
        == 22)
    #expect(bench("check", "api").output.contains("held for 30s (HTTP 403)"))
  }

  @Test func `a time that a server has named counts though the command was killed`() {
    let bench = CommandBench()
    let dump = "\(bench.folder)/h"
    let run = bench(
      "run", "api", "--max-failures", "1", "--retries", "3", "--http-headers", dump, "--", "sh",
      "-c",
      #"printf 'HTTP/1.1 429 No\nRetry-After: 120\n\nHTTP\nRetry-After: 90\n' > '\#(dump)'; kill -KILL $$"#
    )
    #expect(run.code != 0)
    #expect(run.errors.contains("cbctl: api: held for 2m (HTTP 429)\n"))
    #expect(bench("check", "api").output == "rejected: closed, held for 2m (HTTP 429)\n")
  }

  @Test func `a proxy's refusal says nothing of the server`() {
    let bench = CommandBench()
    let dump = "\(bench.folder)/h"
    _ = bench(
      "run", "api", "--http-headers", dump, "--",
      "sh", "-c", #"printf 'HTTP/1.1 407 Proxy Authentication Required\n\n' > '\#(dump)'; exit 56"#)
    #expect(bench("status", "api", "--json").output.contains(#""last_error":"exit code 56""#))
  }

  @Test(arguments: [(0, nil), (29, "instead\n")])
  func `a fallback runs where a resource that asks to be left alone gave nothing`(
    code: Int, written: String?
  ) {
    let bench = CommandBench()
    let (dump, file) = ("\(bench.folder)/h", "\(bench.folder)/fallback")
    let run = bench(
      "run", "sync", "--fallback", "echo instead > '\(file)'", "--http-headers",
      dump,
      "--", "sh", "-c", #"printf 'HTTP/1.1 429 No\n\n' > '\#(dump)'; exit \#(code)"#)
    #expect(run == Answer(code: 0, output: "", errors: ""))
    #expect(Golden.read(file) == written)
  }

  @Test func `what is no file with an answer is not waited for`() {
    let bench = CommandBench()
    for path in ["/dev/null", "/dev/zero", bench.folder, "\(bench.folder)/none"] {
      let run = bench("run", "api", "--http-headers", path, "--", "true")
      #expect(run.code == 0)
      #expect(run.errors.contains("no answer was written"), "\(path)")
    }
  }

  @Test func `an outcome that is reported by a token holds calls`() {
    let bench = CommandBench()
    let token = bench("acquire", "llm").output.dropLast()
    #expect(bench("report", String(token), "hold", "--for", "12s", "--error", "HTTP 429").code == 0)
    #expect(bench("check", "llm").output == "rejected: closed, held for 12s (HTTP 429)\n")
    #expect(bench("report", String(token), "success", "--for", "12s").code == 64)
  }

  @Test func `show and status say how long calls are held, since when and by whom`() {
    let bench = CommandBench()
    _ = bench("hold", "llm", "--for", "5m", "--reason", "quota")
    let show = bench("show", "llm").output
    #expect(show.contains("held until"))
    #expect(show.contains("held because   quota") || show.contains("held because  quota"))
    #expect(bench("status").output.contains("HELD"))
    #expect(bench("metrics").output.contains(#"shared_breaker_hold_seconds{name="llm"} 300"#))
    _ = bench("run", "plain", "--", "true")
    #expect(!bench("metrics").output.contains(#"hold_seconds{name="plain"}"#))
  }

  @Test func `a hold is exported, and imported with what is left of it`() throws {
    let bench = CommandBench()
    _ = bench("hold", "llm", "--for", "5m", "--reason", "quota")
    let export = bench("export")
    #expect(export.output.contains(#""hold_for_ms":300000,"hold_reason":"quota""#))
  }

  @Test func `the page shows that calls are held, until when and why`() {
    let bench = CommandBench()
    _ = bench("hold", "llm", "--for", "5m", "--reason", "quota")
    _ = bench("page", "--output", "\(bench.folder)/page.html")
    let page = Golden.read("\(bench.folder)/page.html") ?? ""
    #expect(page.contains("1 breaker: 1 held"))
    #expect(page.contains(#"<span class="state doubtful">held</span>"#))
    #expect(page.contains("<q>quota</q>"))
  }
}
