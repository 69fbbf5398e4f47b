import SharedBreaker
import Testing

@testable import ControlKit

/// Two breakers whose names have different bytes, but look the same and are equal to Swift.
@Suite struct CanonicalNameTests {
  private static let composed = "caf\u{E9}"
  private static let decomposed = "cafe\u{301}"

  private let bench = CommandBench()

  private func fill() {
    _ = bench("policy", Self.composed, "--set", "probes=2")
    _ = bench("policy", Self.decomposed, "--set", "probes=3")
  }

  @Test func `names that look the same are both exported and both imported`() {
    fill()
    let exported = bench("export").output
    #expect(exported.split(separator: "\n").count == 2)
    let path = "\(bench.folder)/export"
    Golden.write(exported, to: path)
    let other = CommandBench()
    let answer = other("import", path)
    #expect(answer.code == 0, "\(answer.errors)")
    #expect(other("export").output.utf8.elementsEqual(exported.utf8))
    #expect(other("import", path).errors.contains("and 1 other already exist: use --replace"))
  }

  @Test func `an import distinguishes a name from an existing one that looks the same`() {
    _ = bench("policy", Self.composed, "--set", "probes=2")
    let path = "\(bench.folder)/export"
    Golden.write(bench("export").output, to: path)
    let other = CommandBench()
    _ = other("policy", Self.decomposed, "--set", "probes=3")
    #expect(other("import", path).output.utf8.elementsEqual("caf\u{E9}: created, closed\n".utf8))
  }

  @Test func `an import replaces a name and creates the one that looks the same`() {
    fill()
    let path = "\(bench.folder)/export"
    Golden.write(bench("export").output, to: path)
    let other = CommandBench()
    _ = other("policy", Self.composed, "--set", "probes=2")
    let expected = "\(Self.decomposed): created, closed\n\(Self.composed): replaced, closed\n"
    #expect(other("import", path, "--replace").output.utf8.elementsEqual(expected.utf8))
  }

  @Test func `a limit of one shows one of two names that look the same`() {
    fill()
    let metrics = bench("metrics", "--limit", "1").output.unicodeScalars
    #expect(metrics.contains("\u{301}"))
    #expect(!metrics.contains("\u{E9}"))
  }

  @Test func `names that look the same are both reset`() {
    fill()
    let names = [Self.composed, Self.decomposed]
    for name in names { _ = bench("trip", name) }
    #expect(bench.run(["reset"] + names).output.split(separator: "\n").count == 2)
    for name in names { #expect(bench("check", name).code == 0) }
  }

  @Test func `names that look the same are both deleted, or one without the other`() {
    fill()
    let names = [Self.composed, Self.decomposed]
    #expect(bench.run(["delete", "--force"] + names).output.split(separator: "\n").count == 2)
    fill()
    _ = bench("policy", Self.composed, "--unset-all")
    let answer = bench("delete", "--all", "--yes")
    #expect(answer.output.utf8.elementsEqual("\(Self.composed): deleted\n".utf8))
    #expect(bench("status", "--json").output.utf8.count > 100)
  }

  @Test func `an export selects a breaker by the bytes of its name`() {
    fill()
    #expect(bench("export", Self.composed, "x*").output.split(separator: "\n").count == 1)
  }

  @Test func `names that look the same have rates of their own`() {
    var book = RateBook()
    let names = [Self.composed, Self.decomposed]
    for second in 0...1 {
      let snapshots = names.enumerated().map { place, name in
        Samples.breaker(name, madeSecondsAgo: 9) {
          $0.totals.successes = Int64(second * (place + 1) * 4)
        }
      }
      book.note(snapshots, at: .seconds(second))
    }
    #expect(names.map { book.rates(of: $0)?.successes } == [4, 8])
  }
}
