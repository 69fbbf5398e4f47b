import Testing

@testable import BreakerCore

@Suite struct `The evidence for a reboot` {
  private static let noted = BootNote(
    number: 1, id: 10, bootedAtMilliseconds: 1_000_000, seenAt: Instant(nanoseconds: 50))

  /// What a process tells: its boot id, when the host booted as far as the clocks tell, and how long
  /// it has been up.
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

  @Test func `another boot id and another time of booting mean a reboot`() {
    #expect(verdict(seen(11, bootedAt: 1_002_001)) == .rebooted)
    #expect(verdict(seen(11, bootedAt: 997_999)) == .rebooted)
  }

  @Test func `another boot id means nothing if the host booted at the same time`() {
    #expect(verdict(seen(11, bootedAt: 1_002_000)) == .same)
    #expect(verdict(seen(11, bootedAt: 998_000)) == .same)
  }

  @Test func `another boot id means nothing if a process attests the boot`() {
    #expect(verdict(seen(11, bootedAt: 99_000_000), isAttested: true) == .same)
  }

  @Test(arguments: [nil, 11] as [Int64?])
  func `a clock that is behind the latest time of the store means a reboot`(id: Int64?) {
    #expect(verdict(seen(id, up: 59)) == .rebooted)
    #expect(verdict(seen(id, up: 60)) == .same)
    #expect(verdict(seen(id, up: 49), latest: 0) == .rebooted)
    #expect(verdict(seen(id, up: 50), latest: 0) == .same)
  }

  @Test func `a boot id that one of the two could not read means nothing`() {
    for bootedAt: Int64 in [0, 1_000_000, 99_000_000] {
      #expect(verdict(seen(nil, bootedAt: bootedAt)) == .same)
      #expect(verdict(seen(11, bootedAt: bootedAt), noted: nil) == .same)
      #expect(verdict(seen(nil, bootedAt: bootedAt), noted: nil) == .same)
    }
  }

  @Test func `a clock that is behind others of the same boot is not the host's`() {
    #expect(verdict(seen(nil, up: 49), isAttested: true) == .foreignClock)
    #expect(verdict(seen(nil, up: 50), isAttested: true) == .same)
  }

  @Test func `the time of booting is what the wall clock was when the boot clock began`() {
    let now = Moment(boot: Instant(nanoseconds: 5_000_000_000), wallMilliseconds: 12_345)
    #expect(BootSighting(id: nil, at: now).bootedAtMilliseconds == 7_345)
    let note = BootNote(number: 4, of: BootSighting(id: 3, at: now))
    #expect(note == BootNote(number: 4, id: 3, bootedAtMilliseconds: 7_345, seenAt: now.boot))
  }
}
