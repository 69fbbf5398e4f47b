import Testing

@testable import BreakerCore

/// How a process judges from the evidence whether the host has rebooted.
@Suite struct BootEvidenceTests {
  private static let noted = BootNote(
    number: 1, id: 10, bootedAtMilliseconds: 1_000_000, seenAt: Instant(nanoseconds: 50))

  /// A boot as a process sees it: the boot id, the boot time by the clocks, and the host's uptime.
  private func seen(_ id: Int64?, bootedAt: Int64 = 1_000_000, up: Int64 = 100) -> BootSighting {
    let now = Moment(boot: Instant(nanoseconds: up), wallMilliseconds: 0)
    var sighting = BootSighting(id: id, at: now)
    sighting.bootedAtMilliseconds = bootedAt
    return sighting
  }

  private func verdict(
    _ seen: BootSighting, noted id: Int64? = 10, isAttested: Bool = false, latest: Int64 = 60
  ) -> BootVerdict {
    var noted = Self.noted
    noted.id = id
    return BootVerdict.judge(
      noted: noted, seen: seen, isAttested: { isAttested },
      latest: { Instant(nanoseconds: latest) })
  }

  @Test func `the same boot id means the same boot, whatever the wall clock says`() {
    #expect(verdict(seen(10)) == .same)
    #expect(verdict(seen(10, bootedAt: 99_000_000)) == .same)
  }

  @Test func `a different boot id and a different boot time mean a reboot`() {
    #expect(verdict(seen(11, bootedAt: 1_002_001)) == .rebooted)
    #expect(verdict(seen(11, bootedAt: 997_999)) == .rebooted)
  }

  @Test func `a different boot id is not a reboot if the boot time is within two seconds`() {
    #expect(verdict(seen(11, bootedAt: 1_002_000)) == .same)
    #expect(verdict(seen(11, bootedAt: 998_000)) == .same)
  }

  @Test func `a different boot id is not a reboot if a process attests the boot`() {
    #expect(verdict(seen(11, bootedAt: 99_000_000), isAttested: true) == .same)
  }

  @Test(arguments: [nil, 11] as [Int64?])
  func `a clock that is behind the latest time in the store means a reboot`(id: Int64?) {
    #expect(verdict(seen(id, up: 59)) == .rebooted)
    #expect(verdict(seen(id, up: 60)) == .same)
    #expect(verdict(seen(id, up: 49), latest: 0) == .rebooted)
    #expect(verdict(seen(id, up: 50), latest: 0) == .same)
  }

  @Test func `a boot id that either side could not read is no evidence of a reboot`() {
    for bootedAt: Int64 in [0, 1_000_000, 99_000_000] {
      #expect(verdict(seen(nil, bootedAt: bootedAt)) == .same)
      #expect(verdict(seen(11, bootedAt: bootedAt), noted: nil) == .same)
      #expect(verdict(seen(nil, bootedAt: bootedAt), noted: nil) == .same)
    }
  }

  @Test func `a clock that is behind an attested boot is judged a foreign clock`() {
    #expect(verdict(seen(nil, up: 49), isAttested: true) == .foreignClock)
    #expect(verdict(seen(nil, up: 50), isAttested: true) == .same)
  }

  @Test func `the boot time is what the wall clock showed when the boot clock started`() {
    let now = Moment(boot: Instant(nanoseconds: 5_000_000_000), wallMilliseconds: 12_345)
    #expect(BootSighting(id: nil, at: now).bootedAtMilliseconds == 7_345)
    let note = BootNote(number: 4, of: BootSighting(id: 3, at: now))
    #expect(note == BootNote(number: 4, id: 3, bootedAtMilliseconds: 7_345, seenAt: now.boot))
  }
}
