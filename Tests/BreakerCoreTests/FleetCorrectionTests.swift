import BreakerCore
import Testing

/// What becomes of commands with stamps that a clock far ahead has given.
struct FleetCorrectionTests {
  private func order(_ stamp: Int64, from host: String = "a", given time: Int64) -> FleetOrder {
    FleetOrder(
      FleetCommand(
        name: "db", action: .reset, author: "x", host: host, stamp: stamp, age: .zero),
      givenAt: Moment(boot: Instant(nanoseconds: 0), wallMilliseconds: time))
  }

  @Test func `a command that was given with the wrong clock is forgotten`() {
    let orders = [order(50, given: 50), order(900, given: 900), order(901, given: 901)]
    let correction = FleetCorrection(orders, above: 100, of: "a")
    #expect(correction.highest == 50)
    #expect(orders.allSatisfy { correction.corrected($0) == nil })
  }

  @Test func `a command that was given with the right clock gets the stamp that it should have`() {
    let orders = [
      order(903, given: 80), order(60, given: 10), order(901, given: 40), order(902, given: 80),
      order(902, given: 80), order(900, given: 900),
    ]
    let correction = FleetCorrection(orders, above: 100, of: "a")
    #expect(correction.corrected(orders[2])?.stamp == 61)
    #expect(correction.corrected(orders[3])?.stamp == 80)
    #expect(correction.corrected(orders[4])?.stamp == 80)
    #expect(correction.corrected(orders[0])?.stamp == 81)
    #expect(correction.corrected(orders[1]) == nil && correction.corrected(orders[5]) == nil)
    #expect(correction.highest == 81)
    #expect(correction.corrected(orders[0])?.givenAt == orders[0].givenAt)
  }

  @Test func `what another host gave is forgotten, whatever its age`() {
    let correction = FleetCorrection([order(900, from: "b", given: 80)], above: 100, of: "a")
    #expect(correction.highest == 0)
    #expect(correction.corrected(order(900, from: "b", given: 80)) == nil)
  }

  @Test func `there may be nothing to correct`() {
    #expect(FleetCorrection([], above: 100, of: "a").highest == 0)
    #expect(FleetCorrection([order(7, given: 7)], above: 100, of: "a").highest == 7)
  }
}
