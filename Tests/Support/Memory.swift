internal import TestShim

/// The memory of this process.
package enum Memory {
  /// Whether a sanitizer checks the memory, which makes every allocation slow.
  package static var isWatched: Bool { ts_is_watched() != 0 }

  /// The number of bytes that are allocated and not freed.
  package static var allocatedBytes: Int { Int(ts_allocated_bytes()) }
}
