@testable import ControlKit
import BreakerDocuments
import ProgramKit
import SharedBreaker

/// Checks that a relay's answer is understood or refused, and can be shown whatever it says; and that
/// a relay understands a question, or what is announced to it, as it was meant.
enum StatusTarget {
  static func run(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let question = RelayStatus.Question(words: text) {
      expect(RelayStatus.Question(words: question.words) == question, "another question")
    }
    do {
      show(try RelayStatus(document: text))
    } catch {
      expectReadable(VisibleText.bare("\(error)"))
      expect("\(error)".utf8.count < 4_096, "a message that drowns what it says")
    }
  }

  private static func show(_ status: RelayStatus) {
    let now = BreakerTimestamp(millisecondsSince1970: 1_790_000_000_000)
    for isComplete in [true, false] {
      let overview = FleetOverview(of: status, isComplete: isComplete)
      expect(
        overview.hosts.count + overview.silent.count == (status.hosts ?? []).count,
        "a host is missing")
      expect(overview.names.count == overview.rows.count + overview.usual, "a breaker is missing")
      let page = FleetText(status: status, overview: overview, now: now)
      for width in [20, 80] {
        let text = page.page(width: width, painter: Painter(isOn: false))
        for line in text.split(separator: "\n") { expectReadable(String(line)) }
      }
      for line in page.plain.split(separator: "\n") { expectReadable(String(line)) }
      for line in FleetDocument.of(status, showing: overview).text.split(separator: "\n") {
        expectReadable(String(line))
      }
      _ = PageFleet(name: status.fleet, overview: overview, relay: page.relayWords).html
    }
  }
}
