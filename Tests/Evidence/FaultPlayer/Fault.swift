import FaultShim

/// One way in which a disk fails.
struct Fault: CustomStringConvertible {
  var kind: fault_kind
  var manner: fault_manner

  /// Whether every later operation fails too, until the fault is disarmed.
  var isLasting: Bool

  var description: String {
    let words = ["input-output", "disk-full", "short", "busy", "no-memory"]
    return "\(Self.names[Int(kind.rawValue)]) \(words[Int(manner.rawValue)])"
      + (isLasting ? " lasting" : " once")
  }

  private static let names = [
    "open", "read", "write", "sync", "truncate", "size", "lock", "unlock", "delete", "access",
    "index-map", "index-lock", "call-open", "call-sync", "call-reserve", "call-lock", "any",
    "memory",
  ]

  /// Arms the fault from the `first` operation on, counted from 1.
  func arm(at first: Int) { fault_arm(kind, manner, Int32(clamping: first), isLasting ? 1 : 0) }

  static let all: [Fault] = [
    (fault_open, [fault_input_output]),
    (fault_read, [fault_input_output]),
    (fault_write, [fault_input_output, fault_disk_full, fault_short]),
    (fault_sync, [fault_input_output]),
    (fault_truncate, [fault_input_output]),
    (fault_size, [fault_input_output]),
    (fault_lock, [fault_busy, fault_input_output]),
    (fault_unlock, [fault_input_output]),
    (fault_delete, [fault_input_output]),
    (fault_access, [fault_input_output]),
    (fault_index_map, [fault_input_output, fault_disk_full]),
    (fault_index_lock, [fault_busy, fault_input_output]),
    (fault_call_open, [fault_input_output]),
    (fault_call_sync, [fault_input_output, fault_disk_full]),
    (fault_call_reserve, [fault_disk_full]),
    (fault_call_lock, [fault_busy, fault_input_output]),
    (fault_any, [fault_input_output]),
    (fault_memory, [fault_no_memory]),
  ].flatMap { (kind: fault_kind, manners: [fault_manner]) in
    manners.flatMap { manner in
      // A single failure of any operation is covered by the single failures of each kind.
      (kind == fault_any ? [true] : [false, true]).map {
        Fault(kind: kind, manner: manner, isLasting: $0)
      }
    }
  }
}
