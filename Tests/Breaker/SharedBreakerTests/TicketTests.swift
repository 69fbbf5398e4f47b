import BreakerCore
import Testing

@testable import BreakerStore
@testable import SharedBreaker

/// The numbers of a ticket.
@Suite struct TicketTests {
  private let probe = PermitGrant(
    kind: .probe, generation: 7, lease: 8, deadline: Instant(nanoseconds: 9), wouldReject: true)

  @Test func `a ticket says all that it was made of`() {
    var ticket = Ticket(probe, breaker: 10, lineage: -11, from: .local)
    #expect(ticket.grant == probe && ticket.kind == .probe && ticket.isOwn)
    #expect(ticket.breaker == 10 && ticket.lineage == -11 && ticket.source == .local)
    #expect(ticket.start == nil && ticket.held == nil && ticket.outer == nil)
    ticket.start = Instant(nanoseconds: 0)
    #expect(ticket.start == Instant(nanoseconds: 0))
    let ordinary = PermitGrant(kind: .normal, generation: 1)
    ticket.grant = ordinary
    #expect(ticket.grant == ordinary && ticket.kind == .normal)
    // Each flag is its own.
    #expect(ticket.source == .local && ticket.start == Instant(nanoseconds: 0))
    ticket.start = nil
    #expect(ticket == Ticket(ordinary, breaker: 10, lineage: -11, from: .local))
    #expect(Ticket(ordinary, from: .none).source == .none)
    #expect(Ticket(ordinary, from: .store).source == .store)
  }

  @Test func `a ticket tells the room of its call from that of a call around it`() throws {
    let room = try #require(HeldSlot(bits: 77))
    var ticket = Ticket(PermitGrant(kind: .normal, generation: 1), from: .store)
    #expect(ticket.room == 0 && !ticket.hasRoom)
    ticket.held = room
    #expect(ticket.held == room && ticket.outer == nil && ticket.room == 77 && ticket.hasRoom)
    ticket.outer = room
    #expect(ticket.held == nil && ticket.outer == room && ticket.room == 77 && !ticket.hasRoom)
  }

  @Test func `a token is the same in each process, and so is its ticket`() throws {
    var ticket = Ticket(probe, breaker: 10, lineage: -11, from: .local)
    ticket.start = Instant(nanoseconds: 12)
    ticket.forkDepth += 1
    let token = PermitToken(name: "api", ticket: ticket)
    #expect(PermitToken(token.description) == token)
    #expect(token.ticket.isOwn && token.ticket.source == .store && token.ticket.start == nil)
    #expect(token.ticket.breaker == 10 && token.ticket.lineage == -11 && token.kind == .probe)
    #expect(PermitToken(token.description + "x")?.name == "apix")
    // Only the lease of a probe ends.
    let ordinary = PermitToken(
      name: "api",
      ticket: Ticket(PermitGrant(kind: .normal, generation: 7), breaker: 10, from: .store))
    #expect(ordinary.kind == .normal && PermitToken(ordinary.description) == ordinary)
    #expect(
      PermitToken("cb1.0.10.7.0.9.api") == nil && PermitToken("cb1.0.10.7.0.0.api") == ordinary)
  }

  @Test func `a ticket fits into the words of a permit of the C library, and is quickly moved`() {
    #expect(MemoryLayout<Ticket>.size == 80)
    #expect(MemoryLayout<PermitDecision>.size <= 104)
  }
}
