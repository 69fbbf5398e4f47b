import TestSupport
import Testing

/// Imports of more than fits into memory.
@Suite(.disabled(if: Memory.isWatched, "a sanitizer needs more memory than the limit allows"))
struct LargeImportTests {
  @Test(.timeLimit(.minutes(60)))
  func `an import without lines is refused before it fills the memory`() throws {
    var cbctl = try CommandLineTool()
    let export = cbctl.directory.file("export")
    try Files.write(export, [])
    try Files.truncate(export, to: 1_500_000_000)
    cbctl.prefix = #"sh -c 'ulimit -v 1000000; exec "$0" "$@"'"#
    for source in [export, "/dev/zero"] {
      let answer = try cbctl("import '\(source)'")
      #expect(answer.code == 1, "\(answer)")
      #expect(answer.errors.contains("it has a line of more than 16 MiB"), "\(answer.errors)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `an import ends at the first wrong line, however many follow`() throws {
    var cbctl = try CommandLineTool()
    let fifo = cbctl.directory.file("fifo")
    try Files.makeFIFO(fifo)
    cbctl.prefix =
      #"timeout 300 sh -c 'yes "{" >"$1" 2>/dev/null & shift; exec "$@"' - "# + "'\(fifo)'"
    let answer = try cbctl("import '\(fifo)'")
    #expect(answer.code == 1, "\(answer)")
    #expect(answer.errors.hasPrefix("cbctl: nothing was imported: line 1 of "), "\(answer.errors)")
  }
}
