import TestSupport
import Testing

@testable import SharedBreaker

@Suite struct AlarmHeapTests {
  @Test func `a heap of alarms gives the earliest first through adds and removals`() throws {
    var random = SeededRandom(seed: 14)
    for _ in 0..<50 {
      let heap = AlarmHeap()
      var model: [Alarm] = []
      for _ in 0..<300 {
        switch Int.random(in: 0..<5, using: &random) {
        case 0...2:
          let alarm = Alarm(at: .random(in: 0..<40, using: &random)) {}
          heap.add(alarm)
          model.append(alarm)
        case 3:
          guard let alarm = model.randomElement(using: &random) else { continue }
          heap.remove(alarm)
          model.removeAll { $0 === alarm }
        default:
          guard let alarm = heap.first else { continue }
          heap.remove(alarm)
          model.removeAll { $0 === alarm }
        }
        try #require(heap.first?.instant == model.map(\.instant).min())
      }
      var drained: [Int64] = []
      while let alarm = heap.first {
        drained.append(alarm.instant)
        heap.remove(alarm)
        #expect(alarm.heap == nil)
      }
      #expect(drained == model.map(\.instant).sorted())
    }
  }

  @Test func `an alarm that was taken keeps nothing that its action captured`() {
    weak var kept: Leaf?
    let alarm: Alarm
    do {
      let leaf = Leaf()
      kept = leaf
      alarm = Alarm(at: 0) { _ = leaf }
    }
    #expect(kept != nil)
    alarm.take()?()
    #expect(kept == nil)
    #expect(alarm.take() == nil)
  }

  private final class Leaf: Sendable {}
}
