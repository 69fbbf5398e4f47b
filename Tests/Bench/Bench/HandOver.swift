import BenchShim
import SharedBreaker
import TestSupport

/// A turn that two processes of one processor hand to each other, each time while the other one sleeps.
enum HandOver: String {
  /// The process whose turn is over wakes the other one.
  case futex

  /// Each turn is a call of a breaker with a limit of 1, and the other process waits in the queue.
  case limit

  /// The median nanoseconds from the end of a turn to the beginning of the next.
  func nanoseconds(of count: Int, in room: Room) throws -> Double {
    let room = try room.inner("hand-over")
    let file = room.file("turns")
    Files.removeAll(file)
    let waitsBefore = try waits(in: room)
    let turns = try Turns(at: file)
    let children = try (0..<2).map { side in
      try Children.start(.hands, [rawValue, room.path, "\(side)", "\(count / 2)"])
    }
    try Children.begin(children)
    for child in children { _ = try Children.numbers(child) }
    let handed = turns.nanoseconds
    // A turn that the other side found free was not handed over.
    guard handed.count > count * 9 / 10 else {
      throw BenchError("only \(handed.count) of \(count) turns were handed over")
    }
    // The breaker has to know of every one of them that it waited.
    let waited = try waits(in: room) - waitsBefore
    guard self == .futex || waited >= handed.count else {
      throw BenchError("\(handed.count) turns were handed over, but only \(waited) calls waited")
    }
    return bench.median(handed)
  }

  private func waits(in room: Room) throws -> Int {
    guard self == .limit else { return 0 }
    let store = room.openStore()
    defer { store.close() }
    let breaker = try breaker(of: store)
    try breaker.run {}
    return Int(breaker.snapshot().limit?.waits.count ?? 0)
  }

  private func breaker(of store: SharedStore) throws -> Breaker {
    try store.breaker(
      "handed-over", policy: BreakerPolicy(maxConcurrent: 1, queueTimeout: .seconds(600)),
      onStoreFailure: .throw)
  }

  /// The child's side.
  func run(in room: Room, side: Int32, count: Int) throws {
    let turns = try Turns(at: room.file("turns"))
    let store = room.openStore()
    let breaker = self == .limit ? try breaker(of: store) : nil
    // The first call opens the store.
    _ = breaker?.state
    _ = try Parent.awaitStart()
    bs_stay_on_one_processor()
    turns.join(side)
    if let breaker {
      for _ in 0..<count { try breaker.run { turns.have(side) } }
    } else {
      turns.take(side, count)
    }
    turns.leave()
    Parent.report([Double(count)])
  }
}

/// The turns of two processes, in a file that they map.
@safe private final class Turns {
  private let turns: OpaquePointer

  init(at path: String) throws {
    guard let turns = unsafe bs_turns_open(path) else { throw BenchError("no file of turns") }
    unsafe self.turns = turns
  }

  deinit { unsafe bs_turns_close(turns) }

  func join(_ side: Int32) { unsafe bs_turns_join(turns, side) }
  func leave() { unsafe bs_turns_leave(turns) }
  func have(_ side: Int32) { unsafe bs_have_turn(turns, side) }
  func take(_ side: Int32, _ count: Int) { unsafe bs_take_turns(turns, side, Int64(count)) }

  /// How long each turn took from one side to the other.
  var nanoseconds: [Double] {
    var first: UnsafePointer<Int64>?
    let count = unsafe bs_turns_handed(turns, &first)
    guard let first = unsafe first else { return [] }
    return unsafe UnsafeBufferPointer(start: first, count: Int(count)).map { Double($0) }
  }
}
