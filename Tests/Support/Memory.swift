internal import TestShim

/// The memory of this process.
package enum Memory {
  /// Whether a sanitizer watches over it, which makes all that is allocated slow.
  package static var isWatched: Bool { ts_is_watched() != 0 }

  /// How much of it is allocated and not given back.
  package static var allocatedBytes: Int { Int(ts_allocated_bytes()) }
}
