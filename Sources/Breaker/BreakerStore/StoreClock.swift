package import BreakerCore
internal import CHost
internal import Glibc
internal import Synchronization

/// The source of a store's time.
///
/// Deadlines are on the boot clock, which all processes of a host share and no user can set. The
/// wall clock is for people, and for computing what is left of a deadline after a reboot.
public struct StoreClock: Sendable {
  private let readBoot: @Sendable () -> Int64
  private let readWall: @Sendable () -> Int64
  private let readBootID: @Sendable () -> Int64?
  package let isSystem: Bool

  /// Creates a clock for tests; all three values must agree in every process that shares the store.
  ///
  /// - Parameters:
  ///   - bootNanoseconds: Nanoseconds since the host booted; never goes backwards within a boot.
  ///   - wallMilliseconds: Milliseconds since 1970.
  ///   - bootID: A text that is different after each boot.
  public init(
    bootNanoseconds: @escaping @Sendable () -> Int64,
    wallMilliseconds: @escaping @Sendable () -> Int64,
    bootID: @escaping @Sendable () -> String
  ) {
    readBoot = bootNanoseconds
    readWall = wallMilliseconds
    readBootID = { Checksum.of(bootID().utf8) }
    isSystem = false
  }

  private init() {
    readBoot = { sb_boot_nanoseconds() }
    readWall = { Self.nanoseconds(of: CLOCK_REALTIME) / 1_000_000 }
    readBootID = { Self.systemBootID() }
    isSystem = true
  }

  /// The host's own clocks.
  public static let system = StoreClock()

  /// 0 until it has been read; a process that has no descriptor left now may have one later.
  private static let knownBootID = Atomic<Int64>(0)

  private static func systemBootID() -> Int64? {
    let known = knownBootID.load(ordering: .relaxed)
    if known != 0 { return known }
    guard let text = ProcFile.text("/proc/sys/kernel/random/boot_id"), !text.isEmpty else {
      return nil
    }
    let id = Checksum.of(text.utf8)
    knownBootID.store(id, ordering: .relaxed)
    return id
  }

  private static func nanoseconds(of clock: clockid_t) -> Int64 {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  package var instant: Instant { Instant(nanoseconds: readBoot()) }

  /// Asks the kernel itself for the boot time, because others rely on what is computed from it.
  package var moment: Moment {
    let boot = isSystem ? Instant(nanoseconds: sb_checked_boot_nanoseconds()) : instant
    return Moment(boot: boot, wallMilliseconds: readWall())
  }

  /// Nanoseconds of a clock that costs next to nothing to read and is a few milliseconds behind.
  package var coarseNanoseconds: Int64 {
    isSystem ? Self.nanoseconds(of: CLOCK_MONOTONIC_COARSE) : readBoot()
  }

  package var wallMilliseconds: Int64 { readWall() }

  /// A checksum of the kernel's boot id; nil as long as this process cannot read it.
  package var bootID: Int64? { readBootID() }

  /// This process's evidence of the boot that it runs in.
  var sighting: BootSighting {
    // The offset must be known before the clock is read.
    if isSystem { _ = sb_learn_boot_offset() }
    return BootSighting(id: bootID, at: moment)
  }
}

/// A 64-bit FNV-1a checksum, for distinguishing texts and not for secrets.
enum Checksum {
  static func of(_ bytes: some Sequence<UInt8>) -> Int64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return Int64(bitPattern: hash)
  }
}
