internal import Synchronization

/// Random numbers that cost no system call each, for what has to differ and need not be secret.
package enum Jitter {
  private static let state = Atomic<UInt64>(.random(in: .min ... .max))
  private static let forkDepth = Atomic<UInt64>(ForkGuard.depth)

  /// A number from 0 up to 1.
  package static func drawn() -> Double {
    let current = ForkGuard.depth
    if forkDepth.load(ordering: .relaxed) != current {
      // A child of a fork must not draw what its parent and its siblings draw.
      state.store(.random(in: .min ... .max), ordering: .relaxed)
      forkDepth.store(current, ordering: .relaxed)
    }
    return drawn(from: state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue)
  }

  /// A number from 0 up to 1 that looks random, and is the same for the same seed.
  package static func drawn(from seed: UInt64) -> Double {
    var mixed = (seed ^ (seed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return Double((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53
  }
}
