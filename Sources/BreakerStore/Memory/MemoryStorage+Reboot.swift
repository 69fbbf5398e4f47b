internal import BreakerCore

/// What a reboot of a host in a test does to its breakers.
extension MemoryStorage {
  /// Carries every breaker over into a boot that has begun by now.
  package func carryOverReboot() {
    withState {
      $0.carryOver(
        to: clock.moment, bootedAtMilliseconds: clock.sighting.bootedAtMilliseconds)
    }
  }
}
