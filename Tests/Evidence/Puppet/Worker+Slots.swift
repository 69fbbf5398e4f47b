import BreakerCore
import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// Calls under a limit, straight on the slots that processes share.
extension Worker {
  /// `slot-begin LIMIT [UNITS]`: begins a call that does not wait, and keeps its slots.
  func beginSlot(_ words: [String]) -> String {
    entry(words, wait: nil, claim: CallClaim(units: number(words, 1) ?? 1))
  }

  /// `slot-begin-thread LIMIT`: begins a call that does not wait, in a thread that ends then.
  func beginSlotInThread(_ words: [String]) -> String {
    guard let block = slotBlock(), let limit = number(words, 0) else { return "error no slots" }
    let begun = Begun()
    Threads.run(1) { _ in
      let terms = SlotTerms(CallLimit(limit), revision: 1)
      if case .begun = block.enter(CallClaim(), terms) { begun.count.add(1, ordering: .relaxed) }
    }
    return begun.count.load(ordering: .relaxed) == 1 ? "begun" : "busy"
  }

  /// `slot-exec LIMIT`: begins a call that does not wait, in a thread that becomes `cat` once a caller waits.
  func becomeAnotherProgram(_ words: [String]) throws -> String {
    guard let block = slotBlock(), let limit = number(words, 0) else { return "error no slots" }
    let begun = Begun()
    Threads().start {
      let terms = SlotTerms(CallLimit(limit), places: 8, revision: 1)
      guard case .begun = block.enter(CallClaim(), terms, wait: nil) else { return }
      begun.count.store(1, ordering: .releasing)
      while !block.isAwaited { usleep(1_000) }
      var arguments = unsafe [strdup("cat"), nil]
      unsafe execv("/bin/cat", &arguments)
      abort()
    }
    while begun.count.load(ordering: .acquiring) == 0 { usleep(1_000) }
    return "begun"
  }

  /// `slot-wait LIMIT PLACES MS [background]`: waits for its turn, and keeps its slot.
  func waitForSlot(_ words: [String]) -> String {
    entry(
      words, wait: SlotWait(atMost: .milliseconds(number(words, 2) ?? 0)),
      claim: CallClaim(priority: words.contains("background") ? .background : .ordinary),
      places: number(words, 1) ?? 0)
  }

  /// `slot-end`: ends the oldest call that has slots.
  func endSlot() -> String {
    guard !heldSlots.isEmpty, let block = slotBlock() else { return "error no slot" }
    return block.end(heldSlots.removeFirst()) ? "ended" : "refused"
  }

  /// `slot-storm LIMIT THREADS WITNESS INDEX SEED`: makes calls of every kind until the witness says
  /// that it is over, and answers how many began.
  func stormSlots(_ words: [String]) throws -> String {
    let witness = try SlotWitness(path: words[2])
    guard let block = slotBlock(), let index = number(words, 3), let threads = number(words, 1),
      let seed = UInt64(words[4])
    else { return "error no storm" }
    let limit = CallLimit(number(words, 0) ?? 1)
    let terms = SlotTerms(limit, places: 64, revision: 1)
    let begun = Begun()
    Threads.run(threads) { thread in
      var random = SeededRandom(seed: seed &+ UInt64(thread))
      while !witness.isOver(index) {
        let claim = CallClaim(
          units: random.pick([1, 1, 1, 2, 3]), priority: random.pick([.ordinary, .background]))
        let wait = random.pick([
          nil, SlotWait(atMost: .milliseconds(1)), SlotWait(atMost: .milliseconds(500)),
        ])
        guard case .begun(let held) = block.enter(claim, terms, wait: wait) else { continue }
        let weight = limit.weight(of: claim)
        witness.enter(weight, of: index, allowed: limit.units)
        if random.number(0...4) == 0 { usleep(UInt32(random.number(1...300))) }
        witness.leave(weight, of: index)
        block.end(held)
        begun.count.add(1, ordering: .relaxed)
      }
    }
    return "begun \(begun.count.load(ordering: .relaxed))"
  }

  /// `limit-storm LIMIT THREADS WITNESS INDEX`: makes calls of the breaker until the witness says that
  /// it is over, and answers how many began.
  func stormLimit(_ words: [String]) throws -> String {
    guard let limit = number(words, 0), let threads = number(words, 1),
      let index = number(words, 3)
    else { return "error no storm" }
    let witness = try SlotWitness(path: words[2])
    let breaker = breaker
    let begun = Begun()
    Threads.run(threads) { thread in
      var random = SeededRandom(seed: UInt64(100 * index + thread))
      while !witness.isOver(index) {
        guard let permit = try? breaker.acquire() else { continue }
        witness.enter(1, of: index, allowed: limit)
        if random.number(0...4) == 0 { usleep(UInt32(random.number(1...300))) }
        witness.leave(1, of: index)
        permit.succeed()
        begun.count.add(1, ordering: .relaxed)
      }
    }
    return "begun \(begun.count.load(ordering: .relaxed))"
  }

  private func entry(
    _ words: [String], wait: SlotWait?, claim: CallClaim, places: Int = 0
  ) -> String {
    guard let block = slotBlock(), let limit = number(words, 0) else { return "error no slots" }
    let terms = SlotTerms(CallLimit(limit), places: places, revision: 1)
    switch block.enter(claim, terms, wait: wait) {
    case .begun(let held):
      heldSlots.append(held)
      return "begun"
    case .busy: return "busy"
    case .unwanted: return "unwanted"
    case .outdated: return "outdated"
    case .unseen: return "unknown"
    }
  }

  private func slotBlock() -> SlotBlock? {
    if slots == nil {
      let page = SlotPage(of: store.path)
      page.use(storePath: store.path, store: 1, boot: 1)
      slots = page
    }
    return slots?.block(ofBreaker: 1)
  }

  private func number(_ words: [String], _ index: Int) -> Int? {
    index < words.count ? Int(words[index]) : nil
  }
}

private final class Begun: Sendable {
  let count = Atomic(0)
}
