import Glibc
import SharedBreaker

/// The figures of a store as a whole.
struct StoreFigures: Sendable {
  /// When the figures were taken.
  var now: BreakerTimestamp

  /// How many breakers there are; nil if the store is unavailable.
  var breakers: Int?

  /// How many of the breakers that were asked for are left out.
  var leftOut = 0

  /// The fleet that the store belongs to; nil if it belongs to none.
  var fleet: FleetFigures?

  /// The length of each file.
  var files: [File] = []

  struct File: Sendable, Hashable {
    var name: String
    var bytes: Int64
  }

  /// The lengths of the files of a store, as far as they exist.
  static func files(of path: String) -> [File] {
    let suffixes: KeyValuePairs = ["database": "", "log": "-wal", "counters": "-counters"]
    return suffixes.compactMap { name, suffix in
      var status = stat()
      guard unsafe stat(path + suffix, &status) == 0 else { return nil }
      return File(name: name, bytes: Int64(status.st_size))
    }
  }
}

/// The metrics of the store.
enum StoreMetrics {
  static let families: [MetricFamily<StoreFigures>] = [
    .init(.gauge, "build_info", "Always 1; the versions of cbctl and of SQLite.") { _ in
      [Sample(1, ["version": ControlKit.version, "sqlite": SharedStore.sqliteVersion])]
    },
    .init(.gauge, "collected_timestamp_seconds", "When these metrics were written.") {
      [Sample($0.now.sinceEpoch)]
    },
    .init(.gauge, "store_up", "Whether the store could be read.") {
      [Sample($0.breakers != nil)]
    },
    .init(.gauge, "store_size_bytes", "The size of each file of the store.") { store in
      store.files.map { Sample($0.bytes, ["file": $0.name]) }
    },
    .init(.gauge, "store_breakers", "How many breakers the store has.") { store in
      store.breakers.map { [Sample(Int64($0))] } ?? []
    },
    .init(
      .gauge, "store_breakers_left_out", "How many of the requested breakers --limit has left out."
    ) { store in
      store.breakers == nil ? [] : [Sample(Int64(store.leftOut))]
    },
  ]
}
