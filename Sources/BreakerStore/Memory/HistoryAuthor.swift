/// The process that does something, as the history names it.
package struct HistoryAuthor: Sendable {
  package var pid: Int32
  package var program: String

  package init(pid: Int32, program: String) {
    self.pid = pid
    self.program = program
  }
}
