internal import TestShim

/// The memory of this process.
package enum Memory {
  /// How much of it is allocated and not given back.
  package static var allocatedBytes: Int { Int(ts_allocated_bytes()) }
}
