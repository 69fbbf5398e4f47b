@testable import BreakerCore
@testable import ControlKit
import SharedBreaker

/// Checks that durations, rates, factors, counts and patterns can be read, written and read again.
enum ValuesTarget {
  static func run(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    duration(text)
    rate(text)
    if let factor = FactorText.parse(text), (1...1_000).contains(factor) {
      expect(FactorText.parse(FactorText.format(factor)) == factor, "factor \(factor)")
    }
    if let count = CountText.parse(text) {
      expect(CountText.parse(String(count)) == count, "count \(count)")
    }
    pattern(text)
    name(text)
  }

  private static func duration(_ text: String) {
    guard let duration = DurationText.parse(text) else { return }
    let written = DurationText.format(duration)
    expect(DurationText.parse(written) == duration, "\(duration) is written \(written)")
    expectReadable(SpokenDuration.format(duration))
  }

  private static func rate(_ text: String) {
    guard let rate = BreakerPolicy.Rate(text), rate.partsPerMillion >= 0 else { return }
    let written = rate.description
    expect(BreakerPolicy.Rate(written) == rate, "\(rate) is written \(written)")
    for whole in [0, 1, 10_000, Int64.max] {
      let part = rate.smallestPart(of: whole)
      expect(part >= 0, "\(part) of \(whole)")
      expect(part == .max || rate.isReached(by: part, of: whole), "\(rate) of \(whole)")
    }
  }

  private static func pattern(_ text: String) {
    let pattern = NamePattern(text)
    expect(pattern.matches(text), "a pattern does not match itself")
    let beginning = NamePattern.commonBeginning(of: [pattern])
    for name in ["payments", "payments-eu-1", "*", "[a-z]", "ééé", ""] where pattern.matches(name) {
      expect(name.hasPrefix(beginning), "\(name) does not begin with \(beginning)")
    }
  }

  private static func name(_ text: String) {
    do throws(BreakerError) {
      try Breaker.validate(name: text)
      expect(!text.isEmpty && text.utf8.count <= 255, "a wrong name was taken")
      let isControlled = text.unicodeScalars.contains { $0.properties.generalCategory == .control }
      expect(!isControlled, "a name with control characters was taken")
      expectReadable(VisibleText.name(text))
    } catch {
      expectReadable(error.description)
    }
  }
}
