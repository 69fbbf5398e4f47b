internal import CHost
internal import CSQLite
internal import Glibc

/// Whether a file is, or once was, a breaker store, however damaged it is now.
enum StoreEvidence {
  /// Where a database's header has the number of the program that it belongs to
  /// (sqlite.org/fileformat.html, 1.3).
  private static let offsetOfApplication: Int64 = 68

  static func isOurs(_ place: StorePlace) -> Bool {
    let number = application(place)
    // Whoever makes a store begins with an empty file, which is then an empty page for a while.
    let isBegun = place.file.size == 0 || number == 0 && place.file.size == 1_024
    return isBegun || number == Migrator.applicationID || hasOurCounters(place)
  }

  /// Read through SQLite: closing any other descriptor of the file would drop its locks.
  private static func application(_ place: StorePlace) -> Int64? {
    var number = [UInt8](repeating: 0, count: 4)
    do throws(StoreError) {
      let connection = try Connection(
        reading: place.path, way: "immutable=1", lockTimeout: .zero)
      var opened: UnsafeMutablePointer<sqlite3_file>?
      unsafe sqlite3_file_control(
        connection.handle, "main", SQLITE_FCNTL_FILE_POINTER, &opened)
      guard let file = unsafe opened, let read = unsafe file.pointee.pMethods?.pointee.xRead,
        unsafe read(file, &number, 4, offsetOfApplication) == SQLITE_OK
      else { return nil }
    } catch {
      return nil
    }
    return number.reduce(0) { $0 << 8 | Int64($1) }
  }

  private static func hasOurCounters(_ place: StorePlace) -> Bool {
    guard let file = CounterFile.opened(place.beside(CounterFile.suffix), O_RDONLY) else {
      return false
    }
    defer { close(file.descriptor) }
    return file.header != nil
  }
}
