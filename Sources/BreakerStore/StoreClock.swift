package import BreakerCore
internal import Glibc

/// Where a store takes its time from.
///
/// Deadlines are on the boot clock, which all processes of a host share and nobody can set; the
/// wall clock is for people, and for what is left of a deadline after a reboot.
public struct StoreClock: Sendable {
  private let readBoot: @Sendable () -> Int64
  private let readWall: @Sendable () -> Int64
  private let readBootID: @Sendable () -> String
  package let isSystem: Bool

  /// Makes a clock for tests; all three must be the same in every process that shares the store.
  ///
  /// - Parameters:
  ///   - bootNanoseconds: Nanoseconds since the host booted; never goes backwards.
  ///   - wallMilliseconds: Milliseconds since 1970.
  ///   - bootID: A text that is another one after each boot.
  public init(
    bootNanoseconds: @escaping @Sendable () -> Int64,
    wallMilliseconds: @escaping @Sendable () -> Int64,
    bootID: @escaping @Sendable () -> String
  ) {
    readBoot = bootNanoseconds
    readWall = wallMilliseconds
    readBootID = bootID
    isSystem = false
  }

  private init() {
    readBoot = { Self.nanoseconds(of: CLOCK_BOOTTIME) }
    readWall = { Self.nanoseconds(of: CLOCK_REALTIME) / 1_000_000 }
    readBootID = { Self.systemBootID }
    isSystem = true
  }

  /// The host's own clocks.
  public static let system = StoreClock()

  private static let systemBootID: String = ProcFile.text("/proc/sys/kernel/random/boot_id") ?? ""

  private static let systemBoot = Checksum.of(systemBootID.utf8)

  private static func nanoseconds(of clock: clockid_t) -> Int64 {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  package var instant: Instant { Instant(nanoseconds: readBoot()) }

  package var moment: Moment { Moment(boot: instant, wallMilliseconds: readWall()) }

  /// Nanoseconds of a clock that costs next to nothing and is a few milliseconds behind.
  package var coarseNanoseconds: Int64 {
    isSystem ? Self.nanoseconds(of: CLOCK_MONOTONIC_COARSE) : readBoot()
  }

  package var wallMilliseconds: Int64 { readWall() }

  /// The boot as a number: another one after each boot, the same for all processes of this one.
  package var boot: Int64 { isSystem ? Self.systemBoot : Checksum.of(readBootID().utf8) }
}

/// A 64-bit FNV-1a checksum: for telling apart, not for secrets.
enum Checksum {
  static func of(_ bytes: some Sequence<UInt8>) -> Int64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return Int64(bitPattern: hash)
  }
}
