import BreakerCore
import CHost
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BreakerStore

/// The slots of a breaker in memory that processes share.
@Suite struct SlotBlockTests {
  @Test func `as many calls begin as the limit allows, and another one when one has ended`() throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(3), revision: 1)
    let (first, second) = (try stage.block(), try stage.block())
    var held = try (0..<3).map { try #require([first, second][$0 % 2].begun(terms: terms)) }
    #expect(first.enter(CallClaim(), terms) == .busy)
    #expect(second.enter(CallClaim(), terms) == .busy)
    #expect(first.usage.total == 3)
    #expect(first.end(held.removeFirst()))
    #expect(second.begun(terms: terms) != nil)
    #expect(first.enter(CallClaim(), terms) == .busy)
  }

  @Test func `a call ends once, and only in the process that began it`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(2), revision: 1)
    let (first, second) = (try stage.block(), try stage.block())
    let held = try #require(first.begun(terms: terms))
    #expect(second.begun(terms: terms) != nil)
    #expect(!second.end(held))
    #expect(first.end(held))
    #expect(!first.end(held))
    // Another call of the same process has the same slot now.
    let next = try #require(first.begun(terms: terms))
    #expect(next.index == held.index)
    #expect(!first.end(held))
    #expect(first.usage.total == 2)
  }

  @Test func `a heavy call takes all its slots or none, and gives all of them back`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    let terms = SlotTerms(CallLimit(5), revision: 1)
    let heavy = try #require(block.begun(CallClaim(units: 3), terms: terms))
    #expect(block.enter(CallClaim(units: 3), terms) == .busy)
    #expect(block.usage.total == 3)
    let light = try #require(block.begun(CallClaim(units: 2), terms: terms))
    #expect(block.usage.total == 5)
    #expect(block.end(heavy))
    #expect(block.usage.total == 2)
    #expect(block.end(light))
    // More than there is counts as all of it.
    let whole = try #require(block.begun(CallClaim(units: 99), terms: terms))
    #expect(block.usage.total == 5)
    #expect(block.end(whole))
    #expect(block.usage.total == 0)
  }

  @Test func `background calls leave what is reserved`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    let terms = SlotTerms(CallLimit(4, reserved: 3), revision: 1)
    let background = CallClaim(priority: .background)
    #expect(block.begun(background, terms: terms) != nil)
    #expect(block.enter(background, terms) == .busy)
    for _ in 0..<3 { #expect(block.begun(terms: terms) != nil) }
    #expect(block.usage == SlotUsage(ordinary: 3, background: 1))
    #expect(block.enter(CallClaim(), terms) == .busy)
  }

  @Test func `a lowered limit interrupts no call, and holds from the next call on`() throws {
    let stage = try SlotStage()
    let block = try stage.block()
    let wide = SlotTerms(CallLimit(4), revision: 1)
    let narrow = SlotTerms(CallLimit(2), revision: 2)
    var held = try (0..<4).map { _ in try #require(block.begun(terms: wide)) }
    while held.count >= 2 {
      #expect(block.enter(CallClaim(), narrow) == .busy)
      #expect(block.end(held.removeFirst()))
    }
    #expect(block.begun(terms: narrow) != nil)
    #expect(block.enter(CallClaim(), narrow) == .busy)
    // A caller that knows only the earlier limit has to look.
    #expect(block.enter(CallClaim(), wide) == .outdated)
    #expect(block.end(held[0]))
    let raised = SlotTerms(CallLimit(3), revision: 3)
    #expect(block.begun(terms: raised) != nil)
    #expect(block.begun(terms: raised) != nil)
    #expect(block.enter(CallClaim(), raised) == .busy)
  }

  @Test func `the room of the dead is free for the next call, and its loss counts once`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(4), revision: 1)
    let dead = try stage.block(as: stage.deadProcess)
    _ = try #require(dead.begun(CallClaim(units: 2), terms: terms))
    _ = try #require(dead.begun(terms: terms))
    let live = try stage.block()
    _ = try #require(live.begun(terms: terms))
    // One that does not wait takes them at once.
    for _ in 0..<3 { #expect(live.begun(terms: terms) != nil) }
    #expect(live.enter(CallClaim(), terms) == .busy)
    let lost = try #require(live.uncountedLosses(of: 1, in: 0))
    #expect(lost.processes == [stage.deadProcess] && lost.calls == 2)
    live.noteCounted(lost)
    for block in [live, dead] {
      #expect(!block.hasUncountedLosses)
      #expect(block.uncountedLosses(of: 1, in: 2)?.calls == 0)
    }
    #expect(live.uncountedLosses(of: 2, in: 0) == nil)
  }

  @Test func `lost calls are counted once, even if their finder or counter is killed`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    var total: Int64 = 7
    for round in Int64(1)...5 {
      let dead = try stage.block(as: stage.deadProcess)
      _ = try #require(dead.begun(terms: terms))
      // One that noted the loss and was killed before it freed the slot; then one that did all.
      let finder = try stage.block()
      finder.noteLoss(ofSlot: 0, finder.word(ofSlot: 0))
      #expect(finder.begun(terms: terms).map { finder.end($0) } == true)
      // One that was killed before its commit, and one that was killed after it.
      #expect(finder.uncountedLosses(of: 1, in: total)?.calls == 1)
      let other = try stage.block()
      #expect(other.hasUncountedLosses)
      #expect(other.uncountedLosses(of: 1, in: total)?.calls == 1)
      total += 1
      let next = try stage.block()
      #expect(next.hasUncountedLosses)
      let lost = try #require(next.uncountedLosses(of: 1, in: total))
      #expect(lost.calls == 0)
      next.noteCounted(lost)
      #expect(!next.hasUncountedLosses, "round \(round)")
    }
  }

  @Test func `lost calls name each of their processes, until they are counted`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(3), revision: 1)
    let dead = (UInt64(0)..<4).map { number in
      var process = stage.deadProcess
      process.startTicks += number
      return process
    }
    // A process leaves the table with its block.
    var blocks: [SlotBlock] = []
    func lose(_ processes: [ProcessIdentity], after total: Int64) throws -> LostCalls {
      for process in processes {
        blocks.append(try stage.block(as: process))
        _ = try #require(blocks.last?.begun(terms: terms))
      }
      // One that has yet to look for the dead looks at once.
      let live = try stage.block()
      let all = try #require(live.begun(CallClaim(units: 3), terms: terms))
      #expect(live.end(all))
      return try #require(live.uncountedLosses(of: 1, in: total))
    }
    let first = try lose([dead[0], dead[1], dead[0]], after: 0)
    #expect(first.calls == 3 && Set(first.processes) == [dead[0], dead[1]])
    // One that was killed before its commit has counted none of them.
    let live = try stage.block()
    #expect(live.uncountedLosses(of: 1, in: 0)?.processes == first.processes)
    live.noteCounted(first)
    let second = try lose([dead[2], dead[3]], after: 3)
    #expect(second.calls == 2 && Set(second.processes) == Set(dead[2...3]))
  }

  @Test func `a process killed before its call begins, or when it has ended, has lost no call`()
    throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(3), revision: 1)
    for units in 1...2 {
      let dead = try stage.block(as: stage.deadProcess)
      let held = try #require(dead.begun(CallClaim(units: units), terms: terms))
      let word = dead.word(ofSlot: held.index)
      dead.end(held)
      // It was killed right after it took the slot again: all else there is of the call that has ended.
      unsafe dead.slot(held.index).pointee = word.bits
      let live = try stage.block()
      let all = try #require(live.begun(CallClaim(units: 3), terms: terms))
      #expect(!live.hasUncountedLosses)
      #expect(live.uncountedLosses(of: 1, in: 0)?.calls == 0)
      live.end(all)
    }
  }

  @Test func `nothing is inside of a call that has ended while its process takes the slot again`()
    throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let (block, other) = (try stage.block(), try stage.block())
    let held = try #require(block.begun(terms: terms))
    let inherited = try #require(block.inheritance(of: held))
    let word = block.word(ofSlot: held.index)
    #expect(block.isUnderWay(held) && other.isUnderWay(inherited))
    block.end(held)
    unsafe block.slot(held.index).pointee = word.bits
    #expect(!block.isUnderWay(held) && !other.isUnderWay(inherited))
    #expect(block.inheritance(of: held) == nil)
  }

  @Test func `a call of another file is not known to have ended`() throws {
    let (stage, another) = (try SlotStage(), try SlotStage())
    let (block, elsewhere) = (try stage.block(), try another.block())
    let held = try #require(block.begun(terms: SlotTerms(CallLimit(1), revision: 1)))
    let inherited = try #require(block.inheritance(of: held))
    #expect(InheritedSlot(inherited.description) == inherited)
    #expect(!block.hasEnded(inherited))
    block.end(held)
    #expect(block.hasEnded(inherited))
    #expect(!elsewhere.hasEnded(inherited))
  }

  @Test func `a call of a process that exited by itself is not found lost`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let dead = try stage.block(as: stage.deadProcess)
    _ = try #require(dead.begun(terms: terms))
    dead.owners.noteExit()
    let live = try stage.block()
    #expect(live.begun(terms: terms) != nil)
    #expect(!live.hasUncountedLosses)
  }

  @Test func `an unknown owner has nothing`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(2), revision: 1)
    let block = try stage.block()
    _ = try #require(block.begun(terms: terms))
    unsafe block.slot(1).pointee = SlotWord(takenBy: 12_345, .ordinary).bits
    unsafe block.place(5).pointee = PlaceWord(beingTakenBy: 54_321).bits
    block.raise(.places, to: 6)
    #expect(block.begun(terms: terms) != nil)
    #expect(block.word(ofPlace: 5).isFree)
  }

  @Test func `a process that was removed by mistake enters itself again`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let block = try stage.block()
    let held = try #require(block.begun(terms: terms))
    block.owners.remove(try #require(block.owners.own))
    #expect(block.end(held))
    let again = try #require(block.begun(terms: terms))
    block.owners.remove(try #require(block.owners.own))
    // Until then, others take its slot for that of a dead process.
    let other = try stage.block()
    #expect(other.begun(terms: terms) != nil)
    #expect(!block.end(again))
    #expect(block.enter(CallClaim(), terms) == .busy)
    withExtendedLifetime(other) {}
  }

  @Test
  func `an owner out of sight keeps its slots for a day, and what it loses then was not lost`()
    throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(2), revision: 1)
    var process = ProcessTable.current()
    process.pidNamespace += 1
    let hidden = try stage.block(as: process)
    let held = try #require(hidden.begun(terms: terms))
    let block = try stage.block()
    let own = try #require(block.begun(terms: terms))
    let now = sb_coarse_nanoseconds()
    #expect(
      !block.freeTheDead(believingLocks: false, at: now + SlotCare.longestUnseen - 1_000_000_000))
    #expect(block.enter(CallClaim(), terms) == .busy)
    // One that is seen keeps its slot for as long as its call takes.
    #expect(
      block.freeTheDead(believingLocks: false, at: now + SlotCare.longestUnseen + 1_000_000_000))
    #expect(block.usage.total == 1 && !block.hasUncountedLosses)
    #expect(!hidden.end(held) && block.end(own))
  }

  @Test func `the table of owners is emptied of the dead when it is full`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let block = try stage.block()
    _ = block.enter(CallClaim(), terms)
    for index in 0..<SlotFile.owners {
      let entry = unsafe block.owners.entry(index)
      // Half of them ended while they entered themselves.
      if unsafe entry.pointee == 0 {
        unsafe entry.pointee = (1 << 40 + UInt64(index)) << 2 | UInt64(index % 2 + 1)
      }
    }
    let other = try stage.block()
    #expect(other.owners.register() != nil)
  }

  @Test func `damaged words are replaced by the true ones`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(2), places: 2, revision: 5)
    let block = try stage.block()
    var random = SeededRandom(seed: 7)
    for round in 0..<rounds(2_000) {
      let words: [SlotBlock.HeaderWord] = [.gate, .tickets, .slots, .places]
      for word in words where random.number(0...1) == 0 {
        unsafe block.header(word).pointee = random.next()
      }
      let index = random.number(0...9)
      unsafe block.slot(index).pointee = random.next()
      unsafe block.place(index).pointee = random.next()
      unsafe block.waiter(index, .owner).pointee = random.next()
      unsafe block.line(index, .next).pointee = random.next()
      // No caller waits for long, nothing crashes, and damaged slots are freed.
      let wait = SlotWait(atMost: .milliseconds(1))
      if case .begun(let held) = block.enter(CallClaim(), terms, wait: wait) { block.end(held) }
      var held: HeldSlot?
      for _ in 0..<10_000 where held == nil {
        held = block.begun(terms: terms)
        if held == nil { usleep(1_000) }
      }
      guard let held else {
        Issue.record("round \(round): no call begins any more, with \(block.usage)")
        return
      }
      #expect(block.end(held))
    }
  }

  @Test func `each breaker has a block of its own, and the same one in every process`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let (one, other) = (try stage.page(), try stage.page())
    for id in [Int64(9), 3, 77] {
      #expect(try #require(one.block(ofBreaker: id)).begun(terms: terms) != nil)
    }
    for id in [Int64(77), 9, 3] {
      #expect(try #require(other.block(ofBreaker: id)).enter(CallClaim(), terms) == .busy)
    }
    #expect(one.block(ofBreaker: 0) == nil)
    #expect(other.block(ofBreaker: 4).map { $0.begun(terms: terms) != nil } == true)
  }

  @Test func `calls end where they began if the file is replaced, and a new file begins empty`()
    throws
  {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let page = try stage.page()
    let earlier = try #require(page.block(ofBreaker: 1))
    let held = try #require(earlier.begun(terms: terms))
    unsafe unlink(stage.path + SlotFile.kind.suffix)
    let other = try stage.page()
    #expect(try #require(other.block(ofBreaker: 1)).begun(terms: terms) != nil)
    page.lookAfterFile()
    let later = try #require(page.block(ofBreaker: 1))
    #expect(later !== earlier)
    #expect(later.enter(CallClaim(), terms) == .busy)
    #expect(earlier.end(held))
    #expect(later.enter(CallClaim(), terms) == .busy)
  }

  @Test func `a process that has an entry without a line in a file enters itself again`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    let page = try stage.page()
    _ = try #require(page.block(ofBreaker: 1)?.begun(terms: terms))
    let path = stage.path + SlotFile.kind.suffix
    // A copy ends before the lines.
    let copy = Array(try Files.read(path).prefix(SlotFile.offsetOfOwnerLines))
    unsafe unlink(path)
    try Files.write(path, copy)
    page.lookAfterFile()
    let block = try #require(page.block(ofBreaker: 1))
    let held = try #require(block.begun(terms: terms))
    #expect(try stage.block().enter(CallClaim(), terms) == .busy)
    #expect(block.end(held))
  }

  @Test func `the slots of another store or another boot are not used`() throws {
    let stage = try SlotStage()
    let terms = SlotTerms(CallLimit(1), revision: 1)
    #expect(try stage.block().begun(terms: terms) != nil)
    for (store, boot) in [(Int64(2), Int64(1)), (1, 2)] {
      let page = SlotPage(of: stage.path)
      page.use(storePath: stage.path, store: store, boot: boot)
      #expect(try #require(page.block(ofBreaker: 1)).begun(terms: terms) != nil)
    }
  }
}

/// A store whose slots several sides use, each like a process of its own.
struct SlotStage {
  let directory: TemporaryDirectory
  let path: String

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.file("store")
    try Files.write(path, [])
  }

  func page(as process: ProcessIdentity? = nil) throws -> SlotPage {
    let page = process.map { process in SlotPage { process } } ?? SlotPage(of: path)
    page.use(storePath: path, store: 1, boot: 1)
    return page
  }

  func block(as process: ProcessIdentity? = nil) throws -> SlotBlock {
    try #require(try page(as: process).block(ofBreaker: 1))
  }

  /// A process of this PID namespace that has ended.
  var deadProcess: ProcessIdentity {
    var process = ProcessTable.current()
    process.pid = 0x7FFF_FFFF
    return process
  }
}

extension SlotBlock {
  /// Takes room for a call whose turn it is, if there is any.
  func takeTurn(_ claim: CallClaim, _ own: UInt64) -> HeldSlot? {
    if case .begun(let held)? = takeWithCare(claim, own) { held } else { nil }
  }

  /// Begins a call that does not wait.
  func begun(_ claim: CallClaim = CallClaim(), terms: SlotTerms) -> HeldSlot? {
    switch enter(claim, terms) {
    case .begun(let held): held
    case .busy, .unwanted, .outdated, .unseen: nil
    }
  }
}
