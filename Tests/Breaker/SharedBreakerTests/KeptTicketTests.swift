import BreakerCore
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// The parts of its ticket that a permit keeps.
@Suite struct KeptTicketTests {
  private var word: CellWord {
    var breaker = StoredBreaker(id: 5, name: "api", createdAtMilliseconds: 0)
    breaker.record.generation = 9
    return CellWord(flags: CellWord.permits, of: breaker)
  }

  /// A ticket as a text, because nothing else compares all of it.
  private func text(_ ticket: Ticket) -> String { String(reflecting: ticket) }

  private var tickets: [Ticket] {
    var timed = Ticket(word)
    timed.start = Instant(nanoseconds: 0)
    var limited = Ticket(word)
    limited.held = HeldSlot(bits: 77)
    var inner = Ticket(word)
    inner.outer = HeldSlot(bits: 77)
    var later = Ticket(word)
    later.grant.generation = 10
    var watched = Ticket(word)
    watched.grant.wouldReject = true
    var breaker = StoredBreaker(id: 3, name: "api", createdAtMilliseconds: 0)
    breaker.lineage = 4
    let probe = PermitGrant(
      kind: .probe, generation: 2, lease: 8, deadline: Instant(nanoseconds: 6))
    return [
      Ticket(word), timed, limited, inner, later, watched,
      Ticket(probe, of: breaker, from: .store), Ticket(probe, from: .local),
      Ticket(PermitGrant(kind: .normal, generation: 1), from: .none),
      Ticket(PermitGrant(kind: .normal, generation: 1), breaker: 3, lineage: 4, from: .store),
    ]
  }

  @Test func `a permit keeps all of its ticket`() {
    #expect(Set(tickets.map(text)).count == tickets.count)
    for ticket in tickets { #expect(text(KeptTicket(ticket).ticket) == text(ticket)) }
  }

  @Test func `an answer to a call is small enough to be handed on in a few moves`() {
    #expect(MemoryLayout<KeptTicket>.size <= 32)
    #expect(MemoryLayout<PermitDecision>.size <= 96)
  }
}
