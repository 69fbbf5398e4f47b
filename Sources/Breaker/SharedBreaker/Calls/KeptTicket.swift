internal import BreakerCore
internal import BreakerStore

/// A ticket as a permit keeps it, in a few words.
///
/// A permit is moved from function to function, and an answer of ``Breaker/decide(probeTimeout:)-avyg`` has room for one
/// even if it is a rejection: with a whole ticket, moving that room would take longer than the rejection itself.
struct KeptTicket: Sendable {
  private let word: CellWord
  private let start: Int64
  private let room: UInt64

  /// The whole ticket, if the words do not say it all; no call that was permitted from memory needs it, but for one
  /// inside of another.
  private let whole: Whole?

  private final class Whole: Sendable {
    let ticket: Ticket

    init(_ ticket: Ticket) { self.ticket = ticket }
  }

  /// Stands for no time.
  private static let untimed = Int64.min

  init(_ ticket: Ticket) {
    word = ticket.word
    start = ticket.start?.nanoseconds ?? Self.untimed
    room = ticket.held?.bits ?? 0
    let grant = PermitGrant(kind: .normal, generation: ticket.word.generation)
    let isSaid =
      ticket.word != .unknown && ticket.grant == grant && ticket.breaker == 0
      && ticket.source == .store && ticket.outer == nil
    whole = isSaid ? nil : Whole(ticket)
  }

  var ticket: Ticket {
    if let whole { return whole.ticket }
    // The word knows the process that the ticket was made in.
    var ticket = Ticket(word)
    if start != Self.untimed { ticket.start = Instant(nanoseconds: start) }
    ticket.held = HeldSlot(bits: room)
    return ticket
  }
}
