@testable import BreakerCore
@testable import SharedBreaker
import SharedBreakerTesting

/// Checks that a token is written as it was read, and that only the right one ends a lease.
enum TokenTarget {
  static func run(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let token = PermitToken(text) else { return }
    expect(OutsideText.complaint(aboutName: token.name) == nil, "a token of no breaker")
    let written = token.description
    expect(PermitToken(written) == token, "\(token) reads as another")
    expect(
      written.utf8.allSatisfy { (0x21..<0x7F).contains($0) && !shellBytes.contains($0) },
      "a shell would touch \(written)")
    report(token)
  }

  private static let shellBytes = Set("'\"`$&|;<>()*?[]{}!#~\\".utf8)

  /// Reports the token to a breaker whose probe belongs to another token.
  private static func report(_ token: PermitToken) {
    do {
      let host = TestHost()
      let store = host.store()
      let breaker = try store.breaker(token.name, policy: BreakerPolicy(openFor: .seconds(30)))
      try breaker.trip()
      host.clock.advance(by: .seconds(30))
      let held = try breaker.acquireToken()
      expect(held.kind == .probe, "no probe is due")
      let isHeld =
        token.ticket.lineage == held.ticket.lineage && token.ticket.breaker == held.ticket.breaker
        && token.ticket.grant.generation == held.ticket.grant.generation
        && token.ticket.grant.lease == held.ticket.grant.lease
      for outcome in [CallOutcome.ignored, .success, .failure(error: token.name)] {
        let verdict = try store.report(token, outcome, elapsed: .seconds(1))
        if isHeld { return expect(verdict == .counted, "\(held) is refused") }
        expect(token.kind == .normal || verdict != .counted, "\(token) passes for \(held)")
      }
      let snapshot = breaker.snapshot()
      expect(snapshot.state == .halfOpen, "\(token) moved the breaker to \(snapshot.state)")
      expect(snapshot.leases.count == 1, "\(token) took the slot of \(held)")
      let verdict = try store.report(held, .success)
      expect(verdict == .counted, "\(token) has spoilt \(held)")
    } catch {
      fatalError("\(error)")
    }
  }
}
