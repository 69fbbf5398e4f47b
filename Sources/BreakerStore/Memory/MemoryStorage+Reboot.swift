internal import BreakerCore

/// What a reboot of a host in a test does to its breakers.
extension MemoryStorage {
  /// Carries every breaker over into a boot that has begun by now.
  package func carryOverReboot() {
    lock.withLock {
      let now = clock.moment
      let bootedAt = clock.sighting.bootedAtMilliseconds
      for key in breakers.keys {
        guard var breaker = breakers[key] else { continue }
        breaker.record.moveBeginning(
          to: breaker.record.stateBegan(
            createdAtMilliseconds: breaker.createdAtMilliseconds, bootedAtMilliseconds: bootedAt,
            beforeBoot: true))
        breaker.record = breaker.record.carriedOver(to: now)
        revision += 1
        breaker.revision = revision
        breakers[key] = breaker
      }
      fleetMemory.carryOver(to: now)
      changed()
    }
  }
}
