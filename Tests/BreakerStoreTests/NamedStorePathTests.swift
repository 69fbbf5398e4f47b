import SharedBreaker
import TestSupport
import Testing

/// The path of a store that a program names.
@Suite struct NamedStorePathTests {
  @Test func `a path is split at its slashes, whatever characters are beside them`() throws {
    // To Swift, such a mark and the slash beside it are one character.
    for folder in ["u\u{600}", "\u{301}v"] {
      let directory = try TemporaryDirectory()
      let path = "\(directory.path)/\(folder)/\u{301}.db"
      let store = SharedStore(path: path)
      try store.connect()
      #expect(store.path == path)
      store.close()
      #expect(Files.exists(path))
    }
  }
}
