import CHost
import Glibc
import Testing

@Suite struct WALIndexPageTests {
  @Test func `the page of the WAL-index can be read after a failed attachment`() async {
    await #expect(processExitsWith: .success) { failToAttach() }
  }
}

private func failToAttach() {
  // A private mapping cannot be mapped a second time.
  let flags = MAP_PRIVATE | MAP_ANONYMOUS
  guard let page = unsafe sb_index_page(),
    let other = unsafe mmap(nil, 4_096, PROT_READ, flags, -1, 0)
  else { preconditionFailure("no memory") }
  precondition(unsafe sb_index_attach(page, other) != 0)
  precondition(unsafe sb_load(page.assumingMemoryBound(to: UInt64.self)) == 0)
  unsafe sb_index_free(page)
}
