import BreakerCore
import Testing

/// Counting calls that were found lost, by processes that may be killed at any step.
@Suite struct LossLedgerTests {
  @Test func `losses found before the first look are counted, whatever the total is`() {
    var ledger = LossLedger()
    #expect(ledger.uncounted(of: 5, in: 3) == 5)
    #expect(ledger.uncounted(of: 5, in: 3) == 5)
    #expect(ledger.uncounted(of: 5, in: 7) == 1)
    #expect(ledger.uncounted(of: 5, in: 8) == 0)
    #expect(ledger.uncounted(of: 6, in: 8) == 1)
  }

  @Test(arguments: Seed.all)
  func `each loss is counted once, wherever processes are killed`(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var ledger = LossLedger()
    let before = Int64.random(in: 0...3, using: &random)
    var (found, total) = (Int64(0), before)
    for _ in 0..<200 {
      found += .random(in: 0...2, using: &random)
      var inTransaction = total
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let uncounted = ledger.uncounted(of: found, in: inTransaction)
        let counted = Int64.random(in: 0...uncounted, using: &random)
        inTransaction += counted
        found += .random(in: 0...1, using: &random)
      }
      // Rolled back, or committed; then perhaps killed before the commit was noted.
      if Bool.random(using: &random) { continue }
      total = inTransaction
      if Bool.random(using: &random) { ledger.counted = total - before }
    }
    total += ledger.uncounted(of: found, in: total)
    #expect(total == before + found)
  }

  @Test func `a total that something else has changed counts nothing twice`() {
    for changed in [Int64(0), 40, .max, .min] {
      var ledger = LossLedger()
      #expect(ledger.uncounted(of: 9, in: 0) == 9)
      ledger.counted = 9
      #expect(ledger.uncounted(of: 9, in: 9) == 0)
      #expect(ledger.uncounted(of: 9, in: changed) == 0, "\(changed)")
      #expect(ledger.uncounted(of: 11, in: changed) == 2, "\(changed)")
    }
  }

  @Test func `damaged memory opens no breaker`() {
    var ledger = LossLedger()
    #expect(ledger.uncounted(of: 2, in: 0) == 2)
    #expect(ledger.uncounted(of: 1 << 40, in: 2) == 0)
    #expect(ledger.uncounted(of: 1 << 40 + 3, in: 2) == 3)
    for counted in [Int64.min, .max] {
      ledger.counted = counted
      #expect(ledger.uncounted(of: 4, in: 9) == (counted < 0 ? 4 : 0))
    }
  }
}
