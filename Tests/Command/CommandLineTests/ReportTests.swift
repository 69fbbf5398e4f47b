import Testing

@testable import bench

struct ReportTests {
  private static func series(_ goal: Goal, _ values: [(Double, floor: Double)]) -> Series {
    var series = Series(
      Subject(
        topic: "calls", name: "run \"it\"", unit: "ns", comparison: .times("bare"), goal: goal,
        samples: "best of 10"))
    for (value, floor) in values { series.add(value, floor: floor) }
    return series
  }

  @Test func `a goal is reached by the median, not by the best round`() {
    #expect(Self.series(.atMost(2), [(1, 1), (3, 1), (3, 1)]).isGoalReached == false)
    #expect(Self.series(.atMost(3), [(1, 1), (3, 1), (9, 1)]).isGoalReached == true)
    #expect(Self.series(.atLeast(3), [(1, 1), (2, 1), (9, 1)]).isGoalReached == false)
  }

  @Test func `a goal for a comparison is checked against the floor of the same round`() {
    #expect(Self.series(.atMost(2).compared, [(10, 5), (40, 20)]).isGoalReached == true)
    #expect(Self.series(.atMost(2).compared, [(10, 4), (40, 10)]).isGoalReached == false)
  }

  @Test func `a figure that was not measured has neither reached nor missed its goal`() {
    #expect(Self.series(.atMost(2), []).isGoalReached == nil)
    #expect(TextReport.table([Self.series(.atMost(2), [])]).contains("0 of 1 goals reached, 1 not"))
  }

  @Test func `the table shows the spread, the goal and whether it was reached`() {
    let table = TextReport.table([Self.series(.atMost(2).compared, [(10, 4), (12, 4), (14, 4)])])
    let row = table.split(separator: "\n")[2].split(separator: " ").joined(separator: " ")
    #expect(
      row == "run \"it\" ns 10.0 12.0 14.0 / bare 2.50 3.00 3.50 <= 2.00 times NO 3 x best of 10")
  }

  @Test func `the JSON document has every value and escapes texts`() {
    let document = JSONReport.document([Self.series(.atMost(2), [(1, 2)])], host: "a\\b\n")
    #expect(document.hasPrefix("{\"host\":\"a\\\\b\\u000a\",\"figures\":["))
    #expect(document.contains("\"figure\":\"run \\\"it\\\"\""))
    #expect(document.contains("\"values\":[1.0],\"against\":\"bare\",\"ratio\":[0.5]"))
    #expect(document.contains("\"reached\":true"))
  }
}
