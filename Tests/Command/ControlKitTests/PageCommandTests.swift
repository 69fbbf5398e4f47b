import Glibc
import Testing

@testable import ControlKit

/// The command `page`.
@Suite struct PageCommandTests {
  private static func mode(of path: String) -> UInt32 {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return 0 }
    return status.st_mode & 0o7777
  }

  private static func bench() -> CommandBench {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1m")
    _ = bench("policy", "mail", "--set", "open-for=1m")
    _ = bench("trip", "pay", "--reason", "disk is <full>")
    return bench
  }

  @Test func `page prints all breakers or those that match`() {
    let bench = Self.bench()
    let all = bench("page")
    #expect(all.code == 0)
    #expect(all.errors.isEmpty)
    #expect(all.output.hasPrefix("<!doctype html>\n"))
    #expect(all.output.hasSuffix("</html>\n"))
    #expect(all.output.contains("disk is &lt;full&gt;"))
    #expect(all.output.contains("1 of 2 breakers rejecting"))
    for words in [["page", "mail"], ["page", "m*"]] {
      let some = bench.run(words).output
      #expect(some.contains("<title>1 breaker "))
      #expect(!some.contains("pay</bdi>"))
      #expect(some.contains("policy: +open-for=1m"))
    }
  }

  @Test(
    arguments: [
      ([], 0o600), (["--mode", "640"], 0o640), (["--mode", "644"], 0o644),
    ] as [([String], UInt32)])
  func `page replaces a file that only its owner may read unless a mode is given`(
    words: [String], mode: UInt32
  ) {
    let bench = Self.bench()
    let path = "\(bench.folder)/page.html"
    for _ in 1...2 {
      #expect(
        bench.run(["page", "--output", path] + words) == Answer(code: 0, output: "", errors: ""))
      #expect(Self.mode(of: path) == mode)
      #expect(Golden.read(path) == bench("page").output)
      unsafe chmod(path, 0o666)
    }
    #expect(!bench.files.contains { $0.hasSuffix(".new") })
  }

  @Test func `page keeps names apart that only look the same`() {
    let bench = CommandBench()
    for (name, reason) in [("caf\u{e9}", "first"), ("cafe\u{301}", "second")] {
      _ = bench("policy", name, "--set", "open-for=1m")
      _ = bench("trip", name, "--reason", reason)
    }
    let page = bench("page").output
    #expect(page.matches(of: /History, newest first/).count == 2)
    // Once in the history of all, and once in the history of its breaker.
    #expect(page.ranges(of: "first</td>").count == 2)
    #expect(page.ranges(of: "second</td>").count == 2)
    let links = ["#b1", "#b2"].map { page.ranges(of: "<a href=\"\($0)\">").count }
    #expect(links[0] == links[1])
  }

  @Test func `page reports as JSON what it wrote`() {
    let bench = Self.bench()
    let path = "\(bench.folder)/page.html"
    let answer = bench("page", "--output", path, "--json")
    let bytes = Golden.read(path)?.utf8.count ?? 0
    #expect(answer.output == "{\"output\":\"\(path)\",\"bytes\":\(bytes),\"breakers\":2}\n")
    #expect(bench("page", "--json").code == 64)
    #expect(bench("page", "--mode", "644").code == 64)
  }

  @Test func `page reports a missing name and a pattern that matches none`() {
    let bench = Self.bench()
    #expect(bench("page", "pya").code == 66)
    let none = bench("page", "x*")
    #expect(none.code == 0)
    #expect(none.errors == "cbctl: no breaker matches: the page shows none\n")
    #expect(none.output.contains("There are no breakers to show."))
  }

  @Test func `page replaces only regular files and leaves nothing behind`() {
    let bench = Self.bench()
    let before = Set(bench.files)
    for path in ["/dev/null", bench.folder] {
      let answer = bench("page", "--output", path)
      #expect(answer.code == 1)
      #expect(answer.errors.contains("\(path) cannot be replaced: it is not a regular file"))
    }
    let missing = bench("page", "--output", "\(bench.folder)/none/page.html")
    #expect(missing.code == 1)
    #expect(missing.errors.contains("No such file or directory"))
    #expect(Set(bench.files) == before)
  }

  @Test func `page never writes through a symbolic link`() {
    let bench = Self.bench()
    let target = "\(bench.folder)/target"
    Golden.write("precious", to: target)
    let link = "\(bench.folder)/link"
    unsafe symlink(target, link)
    let answer = bench("page", "--output", link)
    #expect(answer.code == 1)
    #expect(answer.errors.contains("\(link) cannot be replaced: it is a symbolic link: "))
    #expect(Golden.read(target) == "precious")
    #expect(Self.mode(of: link) == 0o777)
  }
}
