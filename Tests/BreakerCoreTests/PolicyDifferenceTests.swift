import Testing

@testable import BreakerCore

/// The words in which two policies differ.
@Suite struct PolicyDifferenceTests {
  @Test(arguments: [
    ("open-for=30s", "open-for=1m", "open-for 30s -> 1m"),
    ("", "probes=2", "+probes=2"),
    ("probes=2", "", "-probes=2"),
    ("probes=2 open-for=1m", "probes=2 open-for=1m", "no difference"),
    ("", "", "no difference"),
    (
      "max-failures=3 open-for=30s jitter=10%", "max-failures=3 open-for=1m probes=2",
      "open-for 30s -> 1m, -jitter=10%, +probes=2"
    ),
    ("last=50 failure-rate=50%", "failure-rate=none", "failure-rate 50% -> none, -last=50"),
  ])
  func `a difference has the words that differ and no others`(
    old: String, new: String, text: String
  ) {
    #expect(PolicyDifference(from: old, to: new).text() == text)
  }

  @Test func `a difference is in the order of the vocabulary, whatever order the policies have`() {
    let values = PolicyKey.allCases.map { ($0.rawValue, PolicyTextTests.texts[$0] ?? "") }
    let words = values.map { "\($0)=\($1)" }
    #expect(
      PolicyDifference(from: "", to: words.reversed().joined(separator: " ")).words
        == values.map { .added(key: $0, value: $1) })
    #expect(
      PolicyDifference(from: words.joined(separator: " "), to: "").words
        == values.map { .removed(key: $0, value: $1) })
  }

  @Test func `words of another version come last, and are compared like the others`() {
    let difference = PolicyDifference(
      from: "zeal=1 queue=3 bare probes=1", to: "queue=4 probes=2 ahead=a=b  bare")
    #expect(difference.text() == "probes 1 -> 2, +ahead=a=b, queue 3 -> 4, -zeal=1")
  }

  @Test func `the later one of two equal words counts, as in a policy`() {
    #expect(
      PolicyDifference(from: "probes=1 probes=2", to: "probes=3").text() == "probes 2 -> 3")
  }

  @Test func `the arrow of a difference can be another one`() {
    #expect(PolicyDifference(from: "probes=1", to: "probes=2").text(arrow: "→") == "probes 1 → 2")
  }
}
