"""The pages a person opens in a browser: feedback for a student, an overview for the instructor.

Each is one file that fetches nothing and runs nothing.
"""

from grader.html.copies import NearCopies, near_copies
from grader.html.feedback import feedback_page, report_page
from grader.html.overview import class_page

__all__ = ["NearCopies", "class_page", "feedback_page", "near_copies", "report_page"]
