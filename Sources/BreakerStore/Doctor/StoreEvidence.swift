internal import CHost
internal import Glibc

/// Whether a file is or once was a breaker store, however damaged it is now.
enum StoreEvidence {
  /// Where a database's header stores its application's number (sqlite.org/fileformat.html, 1.3).
  static let offsetOfApplication: Int64 = 68

  static func isOurs(_ place: StoreSite) -> Bool {
    let number = application(place)
    // A new store starts as an empty file, and is a single empty page for a while.
    let isBegun = place.file.size == 0 || number == 0 && place.file.size == 1_024
    return isBegun || number == Migrator.applicationID || hasOurCounters(place)
  }

  private static func application(_ place: StoreSite) -> Int64? {
    do throws(StoreError) {
      let connection = try Connection(
        reading: place.path, way: Connection.immutable, lockTimeout: .zero)
      let number = connection.header(at: offsetOfApplication, count: 4)
      return number?.reduce(0) { $0 << 8 | Int64($1) }
    } catch {
      return nil
    }
  }

  private static func hasOurCounters(_ place: StoreSite) -> Bool {
    guard let file = CounterFile.opened(place.beside(CounterFile.suffix), O_RDONLY) else {
      return false
    }
    defer { close(file.descriptor) }
    return file.header != nil
  }
}
